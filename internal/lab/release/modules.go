package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"golang.org/x/mod/modfile"
	"golang.org/x/mod/module"
	"golang.org/x/mod/zip"
)

const home = "github.com/gobackoff/backoff"

// A mod is a published module of the repository.
type mod struct {
	path     string // of the module
	prefix   string // of its tags: its directory in the repository, "" for the root
	dir      string // on disk
	packages []string
	commands []string
}

func (m *mod) tag(version string) string { return path.Join(m.prefix, version) }

// export writes the committed tree to dir.
func export(root, dir string) error {
	if out, err := exec.Command("git", "-C", root, "status", "--porcelain").Output(); err != nil {
		return err
	} else if len(out) > 0 {
		return fmt.Errorf("%s has uncommitted changes, and a release is of a commit:\n%s", root, out)
	}
	archive := exec.Command("git", "-C", root, "archive", "HEAD")
	archive.Stderr = os.Stderr
	files, err := archive.Output()
	if err != nil {
		return err
	}
	extract := exec.Command("tar", "-x", "-C", dir)
	extract.Stdin, extract.Stderr = bytes.NewReader(files), os.Stderr
	return extract.Run()
}

// published lists the modules that users import or install: the root, and the
// modules below contrib and cmd that have more than tests.
func published(tree string) ([]*mod, error) {
	found := []string{filepath.Join(tree, "go.mod")}
	for _, pattern := range []string{"contrib/*/go.mod", "cmd/*/go.mod"} {
		names, err := filepath.Glob(filepath.Join(tree, filepath.FromSlash(pattern)))
		if err != nil {
			return nil, err
		}
		found = append(found, names...)
	}
	var modules []*mod
	for _, name := range found {
		m, err := open(tree, filepath.Dir(name))
		if err != nil {
			return nil, err
		}
		if len(m.packages)+len(m.commands) > 0 {
			modules = append(modules, m)
		}
	}
	return modules, nil
}

// open reads the module in dir and lists its packages and commands.
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
	return m, m.survey()
}

// survey lists the module's packages and commands, but those that users cannot import.
func (m *mod) survey() error {
	list := exec.Command("go", "list", "-find", "-f", "{{if .GoFiles}}{{.Name}} {{.ImportPath}}{{end}}", "./...")
	list.Dir, list.Stderr = m.dir, os.Stderr
	out, err := list.Output()
	if err != nil {
		return err
	}
	for line := range strings.Lines(string(out)) {
		switch name, path, _ := strings.Cut(strings.TrimSpace(line), " "); {
		case strings.Contains(path+"/", "/internal/"):
		case name == "main":
			m.commands = append(m.commands, path)
		default:
			m.packages = append(m.packages, path)
		}
	}
	return nil
}

// pack writes the module, as it is at version, into the proxy.
func (m *mod) pack(version, proxy string) error {
	data, err := m.rewrite(version)
	if err != nil {
		return err
	}
	escaped, err := module.EscapePath(m.path)
	if err != nil {
		return err
	}
	dir := filepath.Join(proxy, filepath.FromSlash(escaped), "@v")
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return err
	}
	var packed bytes.Buffer
	if err := zip.CreateFromDir(&packed, module.Version{Path: m.path, Version: version}, m.dir); err != nil {
		return err
	}
	info, err := json.Marshal(struct {
		Version string
		Time    time.Time
	}{version, time.Now().UTC().Truncate(time.Second)})
	if err != nil {
		return err
	}
	for name, content := range map[string][]byte{
		"list": []byte(version + "\n"), version + ".info": info, version + ".mod": data, version + ".zip": packed.Bytes(),
	} {
		if err := os.WriteFile(filepath.Join(dir, name), content, 0o644); err != nil {
			return err
		}
	}
	return nil
}

// rewrite gives the module the go.mod of a release, which requires the other
// modules of this repository by version.
func (m *mod) rewrite(version string) ([]byte, error) {
	name := filepath.Join(m.dir, "go.mod")
	data, err := os.ReadFile(name)
	if err != nil {
		return nil, err
	}
	f, err := modfile.Parse(name, data, nil)
	if err != nil {
		return nil, err
	}
	for _, r := range slices.Clone(f.Replace) {
		if !ours(r.Old.Path) {
			return nil, fmt.Errorf("go.mod replaces %s, which those who import the module would not", r.Old.Path)
		}
		if err := f.DropReplace(r.Old.Path, r.Old.Version); err != nil {
			return nil, err
		}
	}
	for _, r := range f.Require {
		if ours(r.Mod.Path) {
			if err := f.AddRequire(r.Mod.Path, version); err != nil {
				return nil, err
			}
		}
	}
	f.Cleanup()
	if data, err = f.Format(); err != nil {
		return nil, err
	}
	return data, os.WriteFile(name, data, 0o644)
}

func ours(path string) bool { return path == home || strings.HasPrefix(path, home+"/") }
