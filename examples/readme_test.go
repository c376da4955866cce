package examples

import (
	"bytes"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"
)

const readme = "../README.md"

// A block of Go in the README is a program, declarations, or statements.
// Declarations and statements may use these names, and the packages in imports.
const preamble = `package readme

import (
	"context"

	"github.com/gobackoff/backoff"
)

var ctx = context.Background()

var policy backoff.Policy

var document []byte

func save(context.Context, []byte) error { return nil }

func fetch(context.Context) ([]byte, error) { return nil, nil }
`

var imports = []string{"context", "errors", "net/http", "time", "github.com/gobackoff/backoff", "github.com/gobackoff/backoff/backoffhttp"}

// A block is a block of Go in the README.
type block struct {
	line int // of its first line, from 1
	text string
}

func TestEveryBlockOfTheREADMECompiles(t *testing.T) {
	dir := t.TempDir()
	writeModule(t, dir)
	for _, b := range blocks(read(t, readme)) {
		b.writePackage(t, filepath.Join(dir, fmt.Sprintf("line%d", b.line)))
	}
	vet := exec.Command("go", "vet", "./...")
	vet.Dir = dir
	vet.Env = append(os.Environ(), "GOWORK=off")
	if out, err := vet.CombinedOutput(); err != nil {
		t.Errorf("%v\n%s", err, out)
	}
}

func TestTheREADMEBeginsWithAnExample(t *testing.T) {
	text := read(t, readme)
	if n := strings.Count(text, "\n"); n > 150 {
		t.Errorf("it has %d lines, want at most 150", n)
	}
	first := blocks(text)[0]
	if n := strings.Count(first.text, "\n"); first.line > 12 || n > 12 {
		t.Errorf("the first example has %d lines from line %d on, want at most 12 from line 12", n, first.line)
	}
}

func blocks(text string) []block {
	var found []block
	inside := false
	for i, line := range strings.SplitAfter(text, "\n") {
		switch {
		case line == "```go\n":
			inside = true
			found = append(found, block{line: i + 2})
		case line == "```\n":
			inside = false
		case inside:
			found[len(found)-1].text += line
		}
	}
	return found
}

// writePackage writes the block as a package. Errors in it name lines of the
// README.
func (b block) writePackage(t *testing.T, dir string) {
	t.Helper()
	place := fmt.Sprintf("//line README.md:%d\n", b.line)
	switch {
	case strings.HasPrefix(b.text, "package "):
		write(t, filepath.Join(dir, "main.go"), place+b.text)
		return
	case !parses("package readme\n" + b.text):
		b.text = "func _() {\n" + place + b.text + b.uses() + "}\n"
	default:
		b.text = place + b.text
	}
	write(t, filepath.Join(dir, "preamble.go"), preamble)
	write(t, filepath.Join(dir, "block.go"), "package readme\n\n"+b.imports()+b.text)
}

// imports returns import declarations for the packages that the block names.
func (b block) imports() string {
	var all strings.Builder
	for _, path := range imports {
		name := path[strings.LastIndex(path, "/")+1:]
		if regexp.MustCompile(`\b` + name + `\.`).MatchString(b.text) {
			fmt.Fprintf(&all, "import %q\n", path)
		}
	}
	return all.String()
}

// uses returns statements that use the variables that the block declares only
// for the reader.
func (b block) uses() string {
	file, err := parser.ParseFile(token.NewFileSet(), "", "package readme\nfunc _() {\n"+b.text+"}\n", 0)
	if err != nil {
		return "" // left to the compiler
	}
	var all strings.Builder
	for _, statement := range file.Decls[0].(*ast.FuncDecl).Body.List {
		if assign, ok := statement.(*ast.AssignStmt); ok && assign.Tok == token.DEFINE {
			for _, name := range assign.Lhs {
				fmt.Fprintf(&all, "_ = &%s\n", name)
			}
		}
	}
	return all.String()
}

func parses(text string) bool {
	_, err := parser.ParseFile(token.NewFileSet(), "", text, 0)
	return err == nil
}

// writeModule makes dir a module with the dependencies of the examples.
func writeModule(t *testing.T, dir string) {
	t.Helper()
	root, err := filepath.Abs("..")
	if err != nil {
		t.Fatal(err)
	}
	mod := strings.ReplaceAll(read(t, "go.mod"), "=> ..\n", "=> "+strconv.Quote(filepath.ToSlash(root))+"\n")
	write(t, filepath.Join(dir, "go.mod"), mod)
	if sum, err := os.ReadFile("go.sum"); err == nil {
		write(t, filepath.Join(dir, "go.sum"), string(sum))
	}
}

// read returns the text of a file with Unix line ends.
func read(t *testing.T, name string) string {
	t.Helper()
	text, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	return string(bytes.ReplaceAll(text, []byte("\r\n"), []byte("\n")))
}

func write(t *testing.T, name, text string) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(name), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(name, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
}
