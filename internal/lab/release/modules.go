package main

import (
	"io/fs"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"strings"

	"golang.org/x/mod/modfile"
)

const home = "github.com/gobackoff/backoff"

// A mod is a module of the repository.
type mod struct {
	path   string // of the module
	prefix string // of its tags: its directory in the repository, "" for the root
	dir    string // on disk
}

func (m *mod) tag(version string) string { return path.Join(m.prefix, version) }

// modules finds the modules of a tree.
func modules(tree string) ([]*mod, error) {
	var found []*mod
	err := filepath.WalkDir(tree, func(name string, d fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case d.IsDir() && name != tree && (d.Name() == "testdata" || strings.HasPrefix(d.Name(), ".")):
			return filepath.SkipDir
		case d.Name() != "go.mod":
			return nil
		}
		m, err := open(tree, filepath.Dir(name))
		found = append(found, m)
		return err
	})
	return found, err
}

// open reads the name of the module in dir.
func open(tree, dir string) (*mod, error) {
	data, err := os.ReadFile(filepath.Join(dir, "go.mod"))
	if err != nil {
		return nil, err
	}
	prefix, err := filepath.Rel(tree, dir)
	if err != nil {
		return nil, err
	}
	m := &mod{path: modfile.ModulePath(data), dir: dir}
	if prefix != "." {
		m.prefix = filepath.ToSlash(prefix)
	}
	return m, nil
}

// published chooses the modules that users import or install: the root, and the
// modules below contrib and cmd that have more than tests.
func published(all []*mod) ([]*mod, error) {
	var chosen []*mod
	for _, m := range all {
		if above := path.Dir(m.prefix); m.prefix != "" && above != "contrib" && above != "cmd" {
			continue
		}
		p, err := survey(list(m.dir, "./..."))
		if err != nil {
			return nil, err
		}
		if len(p.packages)+len(p.commands) > 0 {
			chosen = append(chosen, m)
		}
	}
	return chosen, nil
}

// programs are what users import and what they install.
type programs struct{ packages, commands []string }

// list is a go list of names and import paths, which survey reads.
func list(dir, pattern string) *exec.Cmd {
	c := exec.Command("go", "list", "-find", "-f", "{{if .GoFiles}}{{.Name}} {{.ImportPath}}{{end}}", pattern)
	c.Dir = dir
	return c
}

// survey leaves out the packages that users cannot import.
func survey(list *exec.Cmd) (programs, error) {
	var p programs
	out, err := output(list)
	if err != nil {
		return p, err
	}
	for line := range strings.Lines(out) {
		switch name, path, _ := strings.Cut(strings.TrimSpace(line), " "); {
		case strings.Contains(path+"/", "/internal/"):
		case name == "main":
			p.commands = append(p.commands, path)
		default:
			p.packages = append(p.packages, path)
		}
	}
	return p, nil
}

// edit changes the go.mod of the module.
func (m *mod) edit(change func(*modfile.File) error) error {
	name := filepath.Join(m.dir, "go.mod")
	data, err := os.ReadFile(name)
	if err != nil {
		return err
	}
	f, err := modfile.Parse(name, data, nil)
	if err != nil {
		return err
	}
	if err := change(f); err != nil {
		return err
	}
	f.Cleanup()
	if data, err = f.Format(); err != nil {
		return err
	}
	return os.WriteFile(name, data, 0o644)
}

func ours(path string) bool { return path == home || strings.HasPrefix(path, home+"/") }
