package main

import (
	"encoding/json"
	"fmt"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"golang.org/x/mod/modfile"
	"golang.org/x/mod/module"
	"golang.org/x/mod/semver"
)

// A plan gives a version to all published modules, or to one.
type plan struct {
	tree    string // a clone of the repository
	tag     string
	version string
	all     []*mod
	chosen  []*mod // for the version
}

// begin clones the repository, and chooses what the tag releases.
func begin(root, tree, tag string) (*plan, error) {
	if _, err := git(root, "clone", "--quiet", ".", tree); err != nil {
		return nil, err
	}
	if tag == "" {
		announced, err := announced(tree)
		if err != nil {
			return nil, err
		}
		tag = announced
	}
	r := &plan{tree: tree, tag: tag, version: path.Base(tag)}
	if err := r.choose(); err != nil {
		return nil, err
	}
	return r, r.check()
}

func (r *plan) choose() error {
	all, err := modules(r.tree)
	if err != nil {
		return err
	}
	r.all = all
	if r.chosen, err = published(all); err != nil || r.tag == r.version {
		return err
	}
	r.chosen = slices.DeleteFunc(r.chosen, func(m *mod) bool { return m.tag(r.version) != r.tag })
	if len(r.chosen) == 0 {
		return fmt.Errorf("-tag is %s, and no published module is in %s", r.tag, path.Dir(r.tag))
	}
	return nil
}

func (r *plan) check() error {
	switch {
	case !semver.IsValid(r.version) || semver.Canonical(r.version) != r.version:
		return fmt.Errorf("-tag is %q, want a full semantic version such as v0.1.0", r.tag)
	case semver.Major(r.version) != "v0" && semver.Major(r.version) != "v1":
		return fmt.Errorf("-tag is %s, but the module path has no major version suffix", r.tag)
	}
	for _, m := range r.chosen {
		last, err := m.last(r.tree, "")
		if err != nil {
			return err
		}
		if semver.Compare(last, r.version) >= 0 {
			return fmt.Errorf("-tag is %s, but %s was released", r.tag, m.tag(last))
		}
	}
	return nil
}

// last is the highest version of the module that has a tag, below a version if there is one.
func (m *mod) last(tree, below string) (string, error) {
	tags, err := git(tree, "tag", "--list", path.Join(m.prefix, "v*"))
	if err != nil {
		return "", err
	}
	var versions []string
	for tag := range strings.Lines(tags) {
		v := path.Base(strings.TrimSpace(tag))
		if m.tag(v) == strings.TrimSpace(tag) && (below == "" || semver.Compare(v, below) < 0) {
			versions = append(versions, v)
		}
	}
	if len(versions) == 0 {
		return "", nil
	}
	return slices.MaxFunc(versions, semver.Compare), nil
}

// make commits the release and tags it. Then it commits what development needs.
func (r *plan) make(room string) error {
	if err := r.date(time.Now()); err != nil {
		return err
	}
	if err := r.require(); err != nil {
		return err
	}
	files, err := r.files()
	if err != nil {
		return err
	}
	if err := r.tagAll(newVisitor(filepath.Join(room, r.version), r.tree)); err != nil {
		return err
	}
	for name, data := range files {
		if err := os.WriteFile(name, data, 0o644); err != nil {
			return err
		}
	}
	return r.commit("Develop after " + r.tag)
}

// tagAll tags each module after those that it requires.
func (r *plan) tagAll(v visitor) error {
	for rest := r.chosen; len(rest) > 0; {
		var next []*mod
		var err error
		if next, rest, err = split(rest); err != nil {
			return err
		}
		if err := r.tagged(next, v); err != nil {
			return err
		}
	}
	return nil
}

// require has all modules require the released ones at their version.
func (r *plan) require() error {
	for _, m := range r.all {
		err := m.edit(func(f *modfile.File) error {
			for _, required := range slices.Clone(f.Require) {
				if !slices.ContainsFunc(r.chosen, func(m *mod) bool { return m.path == required.Mod.Path }) {
					continue
				}
				if err := f.AddRequire(required.Mod.Path, r.version); err != nil {
					return err
				}
			}
			return nil
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// files reads what commit changes for the tags only.
func (r *plan) files() (map[string][]byte, error) {
	files := map[string][]byte{}
	for _, m := range r.chosen {
		for _, base := range []string{"go.mod", "go.sum"} {
			name := filepath.Join(m.dir, base)
			data, err := os.ReadFile(name)
			if err != nil {
				return nil, err
			}
			files[name] = data
		}
	}
	return files, nil
}

// split divides modules into those that can be tagged, since what they require of ours has its tag,
// and the rest.
func split(modules []*mod) (next, rest []*mod, err error) {
	for _, m := range modules {
		siblings, err := m.siblings()
		if err != nil {
			return nil, nil, err
		}
		if slices.ContainsFunc(modules, func(o *mod) bool { return siblings[o.path] != "" }) {
			rest = append(rest, m)
		} else {
			next = append(next, m)
		}
	}
	if len(next) == 0 {
		return nil, nil, fmt.Errorf("%s and others require each other", rest[0].path)
	}
	return next, rest, nil
}

// siblings are the versions of the modules of this repository that the module requires.
func (m *mod) siblings() (map[string]string, error) {
	versions := map[string]string{}
	return versions, m.edit(func(f *modfile.File) error {
		for _, required := range f.Require {
			if ours(required.Mod.Path) {
				versions[required.Mod.Path] = required.Mod.Version
			}
		}
		return nil
	})
}

// tagged makes a commit that has the tags of the modules.
func (r *plan) tagged(modules []*mod, v visitor) error {
	var names []string
	for _, m := range modules {
		if err := m.detach(v); err != nil {
			return fmt.Errorf("%s: %w", m.path, err)
		}
		names = append(names, path.Base(m.path))
	}
	if err := r.commit("Release " + r.version + " of " + strings.Join(names, ", ")); err != nil {
		return err
	}
	for _, m := range modules {
		tag := m.tag(r.version)
		if _, err := git(r.tree, "tag", "--annotate", tag, "--message", tag); err != nil {
			return err
		}
		fmt.Println("tagged", tag)
	}
	return nil
}

func (r *plan) commit(message string) error {
	if _, err := git(r.tree, "add", "--all"); err != nil {
		return err
	}
	_, err := git(r.tree, "commit", "--quiet", "--allow-empty", "--message", message)
	return err
}

// detach drops the replace directives of development, and adds to go.sum what a build without them
// asks for.
func (m *mod) detach(v visitor) error {
	if err := m.edit(dropReplaces); err != nil {
		return err
	}
	siblings, err := m.siblings()
	if err != nil || len(siblings) == 0 {
		return err
	}
	name := filepath.Join(m.dir, "go.sum")
	sums, err := os.ReadFile(name)
	if err != nil {
		return err
	}
	lines := slices.Collect(strings.Lines(string(sums)))
	for path, version := range siblings {
		added, err := v.sums(module.Version{Path: path, Version: version})
		if err != nil {
			return err
		}
		lines = append(lines, added...)
	}
	slices.Sort(lines)
	return os.WriteFile(name, []byte(strings.Join(lines, "")), 0o644)
}

func dropReplaces(f *modfile.File) error {
	for _, replaced := range slices.Clone(f.Replace) {
		if !ours(replaced.Old.Path) {
			return fmt.Errorf("go.mod replaces %s, which those who import the module would not", replaced.Old.Path)
		}
		if err := f.DropReplace(replaced.Old.Path, replaced.Old.Version); err != nil {
			return err
		}
	}
	return nil
}

// sums are the lines of go.sum for a module that has its tag.
func (v visitor) sums(of module.Version) ([]string, error) {
	out, err := v.goes(v.room, "mod", "download", "-json", of.String())
	if err != nil {
		return nil, err
	}
	var got struct{ Sum, GoModSum string }
	err = json.Unmarshal([]byte(out), &got)
	return []string{
		fmt.Sprintf("%s %s %s\n", of.Path, of.Version, got.Sum),
		fmt.Sprintf("%s %s/go.mod %s\n", of.Path, of.Version, got.GoModSum),
	}, err
}
