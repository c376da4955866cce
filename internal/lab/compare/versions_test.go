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
// what their own files do not tell: what the library is for, when the version
// was released, its licence, and the year of an old version, for those whose
// licence names no year.
var peers = []struct{ path, column, use, released, licence, old string }{
	{"github.com/cenkalti/backoff/v7", "cenkalti", "retries", "2026-11-01", "MIT", ""},
	{"github.com/avast/retry-go/v5", "avast", "retries", "2026-11-04", "MIT", ""},
	{"github.com/sethvargo/go-retry", "sethvargo", "retries", "2026-10-05", "Apache-2.0", "2022"},
	{"github.com/failsafe-go/failsafe-go", "failsafe-go", "retries, breakers and eight more policies; HTTP and gRPC", "2026-09-30", "MIT", ""},
	{"github.com/eapache/go-resiliency", "eapache", "retries, breakers, semaphores, batches", "2024-07-19", "MIT", ""},
	{"github.com/sony/gobreaker/v2", "gobreaker", "breakers", "2026-01-01", "MIT", ""},
	{"github.com/cep21/circuit/v4", "cep21", "breakers", "2026-02-28", "Apache-2.0", "2019"},
	{"github.com/afex/hystrix-go", "hystrix-go", "breakers", "2018-05-02", "MIT", ""},
	{"github.com/hashicorp/go-retryablehttp", "go-retryablehttp", "an HTTP client with retries", "2025-06-18", "MPL-2.0", ""},
	{"github.com/aws/aws-sdk-go-v2", "aws-sdk-go-v2", "clients of AWS, with retries", "2026-11-04", "Apache-2.0", "2019"},
	{"github.com/gobackoff/backoff", ours, "retries, breakers, budgets, hedges, polls; HTTP", "not yet", "MIT", ""},
}

var requirement = regexp.MustCompile(`(?m)^(?:require )?\s*([a-z][\w.-]*\.[a-z]+/\S+) v`)

// The versions in the document are those that the tests run against.
func TestVersions(t *testing.T) {
	ages := []string{"| Library | What it is for | Since | Needs Go |", "|---|---|---|---|"}
	lines := []string{"| Column | Module | Version | Released | Modules in its go.mod | Exported names | Licence |", "|---|---|---|---|---|---|---|"}
	for _, p := range peers {
		out, err := exec.Command("go", "list", "-m", "-f", "{{.Version}} {{.GoVersion}}\n{{.GoMod}}\n{{.Dir}}", p.path).Output()
		require.NoError(t, err, p.path)
		facts := strings.Split(strings.TrimSpace(string(out)), "\n")
		version, needs, _ := strings.Cut(facts[0], " ")
		since := copyrightYear(facts[2])
		if since == "" {
			since = p.old + " or before"
		}
		if p.column == ours {
			version, since = "not yet", "not released"
		}
		if needs == "" {
			needs = nothing
		}
		modules := len(requirement.FindAllString(read(t, facts[1]), -1))
		ages = append(ages, fmt.Sprintf("| %s | %s | %s | %s |", p.column, p.use, since, needs))
		lines = append(lines, fmt.Sprintf("| %s | %s | %s | %s | %d | %s | %s |", p.column, p.path, version, p.released,
			modules, exportedNames(t, facts[2]), p.licence))
	}
	compareTable(t, "ages", ages)
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
	return ""
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
