package examples

import (
	"go/ast"
	"go/doc"
	"go/doc/comment"
	"go/parser"
	"go/token"
	"io/fs"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"testing"
)

const module = "github.com/gobackoff/backoff"

// A documented package is one that has a page on pkg.go.dev.
type documented struct {
	*doc.Package
	name    string // as an importer writes it, or that of the command
	files   *token.FileSet
	comment *ast.CommentGroup // of the package
	text    string            // of that comment
}

// packages are those that users import, and the commands that they install, by
// their directories below the root: "", "backoffhttp", ...
var packages = sync.OnceValues(func() (map[string]documented, error) {
	found := map[string]documented{}
	err := filepath.WalkDir("..", func(dir string, d fs.DirEntry, err error) error {
		if err != nil || !d.IsDir() {
			return err
		}
		if d.Name() == "testdata" || d.Name() == "internal" || d.Name() == "examples" || len(d.Name()) > 2 && strings.HasPrefix(d.Name(), ".") {
			return filepath.SkipDir
		}
		rel, err := filepath.Rel("..", dir)
		if err != nil {
			return err
		}
		p, err := load(dir, strings.TrimSuffix(module+"/"+filepath.ToSlash(rel), "/."))
		if err == nil && p.Package != nil {
			found[filepath.ToSlash(rel)] = p
		}
		return err
	})
	return found, err
})

// load reads the package in a directory, if there is one, with its examples.
func load(dir, path string) (documented, error) {
	p := documented{files: token.NewFileSet()}
	names, err := filepath.Glob(filepath.Join(dir, "*.go"))
	if err != nil {
		return p, err
	}
	var files []*ast.File
	for _, name := range names {
		file, err := parser.ParseFile(p.files, name, nil, parser.ParseComments)
		if err != nil {
			return p, err
		}
		files = append(files, file)
		if file.Doc != nil && !strings.HasSuffix(name, "_test.go") {
			p.name, p.comment, p.text = file.Name.Name, file.Doc, file.Doc.Text()
		}
	}
	if p.text == "" {
		return p, nil
	}
	p.Package, err = doc.NewFromFiles(p.files, files, path, doc.PreserveAST)
	return p, err
}

func loaded(t *testing.T) map[string]documented {
	all, err := packages()
	if err != nil {
		t.Fatal(err)
	}
	if len(all) < 20 {
		t.Fatalf("%d packages: are they still read?", len(all))
	}
	return all
}

// Above the program is what the package is for. Below it is room for one page.
// What is longer belongs to the name that it is about.
func TestAPackageCommentHasAProgramAndThenAtMost40Lines(t *testing.T) {
	for dir, p := range loaded(t) {
		lines := strings.Split(strings.TrimSpace(p.text), "\n")
		begin, end := programIn(lines)
		if begin < 0 || begin > 12 {
			t.Errorf("%s: no program within the first 12 lines of the package comment", dir)
		} else if n := len(lines) - end; n > 40 {
			t.Errorf("%s: %d lines after the program of the package comment, want at most 40", dir, n)
		}
		if !strings.HasPrefix(p.text, "Package "+p.name+" ") && p.name != "main" {
			t.Errorf("%s: the package comment does not begin with Package %s", dir, p.name)
		}
	}
}

// programIn returns where the first code block of a comment begins and ends,
// and -1 if there is none.
func programIn(lines []string) (begin, end int) {
	for begin < len(lines) && !strings.HasPrefix(lines[begin], "\t") {
		begin++
	}
	if begin == len(lines) {
		return -1, -1
	}
	for i := begin; i < len(lines) && (lines[i] == "" || strings.HasPrefix(lines[i], "\t")); i++ {
		end = i + 1
	}
	return begin, end
}

// unlinkedName is a name in brackets, as it is left in the text if pkg.go.dev
// makes no link of it.
var unlinkedName = regexp.MustCompile(`\[\*?[A-Za-z][\w./]*\]`)

func TestDocLinksLeadSomewhere(t *testing.T) {
	all := loaded(t)
	links := 0
	for dir, p := range all {
		for name, text := range docs(p) {
			read := p.Parser().Parse(text)
			eachText(read.Content, func(text comment.Text) {
				switch text := text.(type) {
				case comment.Plain:
					if found := unlinkedName.FindString(string(text)); found != "" && !strings.Contains(exempt, found) {
						t.Errorf("%s: doc of %s: %s is no link", dir, name, found)
					}
				case *comment.DocLink:
					links++
					if !leads(all, text) {
						t.Errorf("%s: doc of %s: there is no %s", dir, name, text.DefaultURL(""))
					}
				}
			})
		}
	}
	if links < 500 {
		t.Errorf("%d links: are they still read?", links)
	}
}

// exempt are the words in brackets that are no links: type parameters, and
// lists in the form of a file.
const exempt = "[T] [string] [durations] [budgets]"

// docs are the doc comments of a package by their names, that of the package
// too.
func docs(p documented) map[string]string {
	all := map[string]string{"the package": p.text}
	for _, v := range append(p.Consts, p.Vars...) {
		all[v.Names[0]] = v.Doc
	}
	for _, f := range p.Funcs {
		all[f.Name] = f.Doc
	}
	for _, typ := range p.Types {
		all[typ.Name] = typ.Doc
		for _, v := range append(typ.Consts, typ.Vars...) {
			all[v.Names[0]] = v.Doc
		}
		for _, f := range typ.Funcs {
			all[f.Name] = f.Doc
		}
		for _, f := range typ.Methods {
			all[typ.Name+"."+f.Name] = f.Doc
		}
	}
	return all
}

// eachText calls see for every piece of text of a comment that is not code.
func eachText(blocks []comment.Block, see func(comment.Text)) {
	for _, b := range blocks {
		var texts []comment.Text
		switch b := b.(type) {
		case *comment.Paragraph:
			texts = b.Text
		case *comment.Heading:
			texts = b.Text
		case *comment.List:
			for _, item := range b.Items {
				eachText(item.Content, see)
			}
		}
		for _, text := range texts {
			see(text)
		}
	}
}

// leads reports whether a link leads to a name that exists. It does not judge
// links to packages of others.
func leads(all map[string]documented, link *comment.DocLink) bool {
	for _, p := range all {
		if p.ImportPath == link.ImportPath {
			return link.Name == "" || p.Parser().LookupSym(link.Recv, link.Name)
		}
	}
	return !strings.HasPrefix(link.ImportPath, module)
}
