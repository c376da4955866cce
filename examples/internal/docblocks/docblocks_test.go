package docblocks

import (
	"os"
	"path/filepath"
	"testing"
)

const source = `package p

func Example() {
	if ready {
		start()

		stop()
	}
	// Output:
	// 1
	//
	// 2
}
`

func TestABlockMustBeInTheCode(t *testing.T) {
	for _, row := range []struct {
		block string
		found bool
	}{
		{"```go\nfunc Example() {\n```\n", true},
		{"```go\nif ready {\n\tstart()\n```\n", true},
		{"```go\nstart()\n\nstop()\n```\n", true},
		{"```text\n1\n\n2\n```\n", true},
		{"```go\nstart(1)\n```\n", false},
		{"```go\nstart()\nstop()\n```\n", false},
		{"```text\n2\n1\n```\n", false},
		{"```text\n1\n```\n```text\n3\n```\n", false},
		{"```json\n{}\n```\n", false}, // no code
	} {
		dir := t.TempDir()
		document := filepath.Join(dir, "guide.md")
		write(t, document, "# A guide\n\n"+row.block)
		write(t, filepath.Join(dir, "code_test.go"), source)
		if err := Check(document, dir); (err == nil) != row.found {
			t.Errorf("%s\n%v", row.block, err)
		}
	}
}

func TestADocumentMustExist(t *testing.T) {
	if Check(filepath.Join(t.TempDir(), "guide.md"), ".") == nil {
		t.Error("no error")
	}
}

func write(t *testing.T, name, text string) {
	t.Helper()
	if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}
