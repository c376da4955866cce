package compare

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// peers are the modules of the tables, with the column that they have there and
// what their own files do not tell: when the version was released, and its
// licence.
var peers = []struct{ path, column, released, licence string }{
	{"github.com/cenkalti/backoff/v7", "cenkalti", "2026-11-01", "MIT"},
	{"github.com/avast/retry-go/v5", "avast", "2026-11-04", "MIT"},
	{"github.com/sethvargo/go-retry", "sethvargo", "2026-10-05", "Apache-2.0"},
	{"github.com/failsafe-go/failsafe-go", "failsafe-go", "2026-09-30", "MIT"},
	{"github.com/eapache/go-resiliency", "eapache", "2024-07-19", "MIT"},
	{"github.com/sony/gobreaker/v2", "gobreaker", "2026-01-01", "MIT"},
	{"github.com/cep21/circuit/v4", "cep21", "2026-02-28", "Apache-2.0"},
	{"github.com/afex/hystrix-go", "hystrix-go", "2018-05-02", "MIT"},
	{"github.com/hashicorp/go-retryablehttp", "go-retryablehttp", "2025-06-18", "MPL-2.0"},
	{"github.com/aws/aws-sdk-go-v2", "aws-sdk-go-v2", "2026-11-04", "Apache-2.0"},
	{"github.com/gobackoff/backoff", ours, "not yet", "MIT"},
}

var requirement = regexp.MustCompile(`(?m)^(?:require )?\s*([a-z][\w.-]*\.[a-z]+/\S+) v`)

// The versions in the document are those that the tests run against.
func TestVersions(t *testing.T) {
	lines := []string{"| Column | Module | Version | Released | Needs Go | Modules in its go.mod | Exported names | Licence | Copyright from |", "|---|---|---|---|---|---|---|---|---|"}
	for _, p := range peers {
		out, err := exec.Command("go", "list", "-m", "-f", "{{.Version}} {{.GoVersion}}\n{{.GoMod}}\n{{.Dir}}", p.path).Output()
		require.NoError(t, err, p.path)
		facts := strings.Split(strings.TrimSpace(string(out)), "\n")
		version, needs, _ := strings.Cut(facts[0], " ")
		if p.column == ours {
			version = "not yet"
		}
		if needs == "" {
			needs = nothing
		}
		modules := len(requirement.FindAllString(read(t, facts[1]), -1))
		lines = append(lines, fmt.Sprintf("| %s | %s | %s | %s | %s | %d | %s | %s | %s |", p.column, p.path, version, p.released,
			needs, modules, exportedNames(t, facts[2]), p.licence, copyrightYear(facts[2])))
	}
	compareTable(t, "versions", lines)
}

// copyrightYear is the first that the licence names; the text of Apache's names
// none.
func copyrightYear(dir string) string {
	files, _ := filepath.Glob(filepath.Join(dir, "LICENSE*"))
	for _, file := range files {
		text, _ := os.ReadFile(file)
		if match := regexp.MustCompile(`(?m)^Copyright (?:\(c\) )?(\d{4})`).FindSubmatch(text); match != nil {
			return string(match[1])
		}
	}
	return nothing
}

// exportedNames counts what a module's first package exports at its top level.
// Where that is in a directory below, or the module is made of many, it says
// nothing.
func exportedNames(t *testing.T, dir string) string {
	files, err := filepath.Glob(filepath.Join(dir, "*.go"))
	require.NoError(t, err)
	names := map[string]bool{}
	for _, name := range files {
		if strings.HasSuffix(name, "_test.go") {
			continue
		}
		file, err := parser.ParseFile(token.NewFileSet(), name, nil, 0)
		require.NoError(t, err)
		for _, d := range file.Decls {
			addExported(names, d)
		}
	}
	if len(names) == 0 {
		return nothing
	}
	return fmt.Sprint(len(names))
}

func addExported(names map[string]bool, d ast.Decl) {
	add := func(id *ast.Ident) {
		if id.IsExported() {
			names[id.Name] = true
		}
	}
	switch d := d.(type) {
	case *ast.FuncDecl:
		if d.Recv == nil {
			add(d.Name)
		}
	case *ast.GenDecl:
		for _, spec := range d.Specs {
			switch spec := spec.(type) {
			case *ast.TypeSpec:
				add(spec.Name)
			case *ast.ValueSpec:
				for _, id := range spec.Names {
					add(id)
				}
			}
		}
	}
}
