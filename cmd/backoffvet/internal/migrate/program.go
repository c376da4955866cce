package migrate

import (
	"cmp"
	"fmt"
	"go/ast"
	"go/token"
	"go/types"
	"os"
	"slices"
	"strings"

	"golang.org/x/tools/go/packages"
)

// A program is what is migrated at once: a mark of one package may be for a call of another.
type program struct {
	fset    *token.FileSet
	files   []*file
	sites   []*site
	skipped []string // why a package was left alone
}

// A site is a place that uses the old library for a call.
type site struct {
	f      *file
	node   ast.Node
	reason string   // why it stays; "" if it moves
	notes  []string // what the tool cannot know
}

// stays says why a site is not migrated, if there is a reason. The first one counts.
func (s *site) stays(reason string) { s.reason = cmp.Or(s.reason, reason) }

// note asks the reader of the summary to look at something.
func (s *site) note(format string, args ...any) {
	if line := fmt.Sprintf(format, args...); !slices.Contains(s.notes, line) {
		s.notes = append(s.notes, line)
	}
}

// site adds a site.
func (p *program) site(f *file, node ast.Node) *site {
	s := &site{f: f, node: node}
	p.sites = append(p.sites, s)
	return s
}

const mode = packages.NeedName | packages.NeedFiles | packages.NeedCompiledGoFiles | packages.NeedSyntax |
	packages.NeedTypes | packages.NeedTypesInfo | packages.NeedImports

// load returns the packages with their tests, each file once.
func load(dir string, patterns []string) (*program, error) {
	p := &program{fset: token.NewFileSet()}
	config := &packages.Config{Mode: mode, Dir: dir, Fset: p.fset, Tests: true}
	all, err := packages.Load(config, patterns...)
	if err != nil {
		return nil, err
	}
	// The variant of a package with most files is the one with its tests.
	slices.SortStableFunc(all, func(a, b *packages.Package) int {
		return cmp.Or(cmp.Compare(len(b.CompiledGoFiles), len(a.CompiledGoFiles)), cmp.Compare(a.ID, b.ID))
	})
	seen := map[string]bool{}
	for _, pkg := range all {
		if err := p.add(pkg, seen); err != nil {
			return nil, err
		}
	}
	slices.SortFunc(p.files, func(a, b *file) int { return cmp.Compare(a.name, b.name) })
	if len(p.files) == 0 {
		return nil, fmt.Errorf("no package to migrate\n%s", strings.Join(p.skipped, "\n"))
	}
	return p, nil
}

// add adds the files of a package that nobody generates, unless it does not compile.
func (p *program) add(pkg *packages.Package, seen map[string]bool) error {
	if len(pkg.Errors) > 0 {
		why := fmt.Sprintf("%s: left alone, it does not compile: %v", pkg.PkgPath, pkg.Errors[0])
		if !slices.Contains(p.skipped, why) {
			p.skipped = append(p.skipped, why)
		}
		return nil
	}
	for i, name := range pkg.CompiledGoFiles {
		if seen[name] || !slices.Contains(pkg.GoFiles, name) || ast.IsGenerated(pkg.Syntax[i]) {
			continue
		}
		seen[name] = true
		text, err := os.ReadFile(name)
		if err != nil {
			return err
		}
		p.files = append(p.files, newFile(p.fset, name, text, pkg.Syntax[i], pkg.TypesInfo, pkg.Types))
	}
	return nil
}

// A file is a source file, and what becomes of it.
type file struct {
	fset    *token.FileSet
	name    string
	text    []byte
	syntax  *ast.File
	info    *types.Info
	pkg     *types.Package
	parents map[ast.Node]ast.Node
	edits   []edit
}

func newFile(fset *token.FileSet, name string, text []byte, syntax *ast.File, info *types.Info, pkg *types.Package) *file {
	f := &file{fset: fset, name: name, text: text, syntax: syntax, info: info, pkg: pkg}
	f.parents = map[ast.Node]ast.Node{}
	var stack []ast.Node
	ast.Inspect(syntax, func(n ast.Node) bool {
		if n == nil {
			stack = stack[:len(stack)-1]
			return true
		}
		if len(stack) > 0 {
			f.parents[n] = stack[len(stack)-1]
		}
		stack = append(stack, n)
		return true
	})
	return f
}

// offset is where a position is in the text.
func (f *file) offset(pos token.Pos) int { return f.fset.Position(pos).Offset }

// source is the text of a node.
func (f *file) source(n ast.Node) string {
	return string(f.text[f.offset(n.Pos()):f.offset(n.End())])
}
