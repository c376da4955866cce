package main

import (
	"fmt"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"strings"

	"golang.org/x/mod/semver"
)

// prove uses the tags, in a clone that also has those of the next patch release.
func (r *plan) prove(room string) error {
	after, err := r.rehearse(room)
	if err != nil {
		return fmt.Errorf("the release after %s: %w", r.tag, err)
	}
	v := newVisitor(filepath.Join(room, "user"), after.tree)
	for _, m := range r.chosen {
		if err := r.use(v, m, after.version); err != nil {
			return fmt.Errorf("%s as a user gets it: %w", m.tag(r.version), err)
		}
	}
	return nil
}

// rehearse makes the next patch release in a clone of its own.
func (r *plan) rehearse(room string) (*plan, error) {
	after, err := begin(r.tree, filepath.Join(room, "next"), next(r.tag))
	if err != nil {
		return nil, err
	}
	return after, after.make(room)
}

// next is the tag of the patch release after that of another tag.
func next(tag string) string {
	dir, version := path.Split(tag)
	version = strings.TrimSuffix(version, semver.Prerelease(version))
	var number int
	minor := semver.MajorMinor(version)
	fmt.Sscanf(version, minor+".%d", &number)
	return fmt.Sprintf("%s%s.%d", dir, minor, number+1)
}

// use does with the module what its users do.
func (r *plan) use(v visitor, m *mod, after string) error {
	moves := [][2]string{{r.version, after}}
	last, err := m.last(r.tree, r.version)
	if err != nil {
		return err
	}
	if last != "" {
		moves = append(moves, [2]string{last, r.version})
	}
	for _, move := range moves {
		if err := v.moves(m, move[0], move[1], r.tag == r.version); err != nil {
			return err
		}
	}
	p, err := survey(list(m.dir, "./..."))
	if err != nil {
		return err
	}
	for _, command := range p.commands {
		if err := v.installs(command, r.version); err != nil {
			return err
		}
	}
	return v.builds(r.tree, m, r.version)
}

// moves runs a program that imports all packages of the module at a version. It runs it again when
// only the root has moved to another version, and when the module has.
func (v visitor) moves(m *mod, from, to string, root bool) error {
	dir := filepath.Join(v.room, "program", m.prefix, from)
	if err := v.does(dir, "mod init example.com/user", "get "+m.path+"@"+from); err != nil {
		return err
	}
	found := list(dir, m.path+"/...")
	found.Env = v.env
	p, err := survey(found)
	if err != nil || len(p.packages) == 0 {
		return err
	}
	if err := writeProgram(filepath.Join(dir, "main.go"), p.packages); err != nil {
		return err
	}
	commands := []string{"mod tidy", "run ."}
	if root && m.prefix != "" {
		commands = append(commands, "get "+home+"@"+to, "mod tidy", "run .")
	}
	commands = append(commands, "get "+m.path+"@"+to, "mod tidy", "run .")
	if err := v.does(dir, commands...); err != nil {
		return err
	}
	fmt.Printf("go get %s@%s, then @%s: ok, %d packages\n", m.path, from, to, len(p.packages))
	return nil
}

// does runs commands of go.
func (v visitor) does(dir string, commands ...string) error {
	for _, command := range commands {
		if _, err := v.goes(dir, strings.Fields(command)...); err != nil {
			return err
		}
	}
	return nil
}

// writeProgram writes a program that imports packages.
func writeProgram(name string, packages []string) error {
	var program strings.Builder
	program.WriteString("package main\n\nimport (\n")
	for _, p := range packages {
		fmt.Fprintf(&program, "\t_ %q\n", p)
	}
	program.WriteString(")\n\nfunc main() { println(\"ok\") }\n")
	return os.WriteFile(name, []byte(program.String()), 0o644)
}

// installs installs a command and has it print its usage.
func (v visitor) installs(command, version string) error {
	if err := v.does(v.room, "install "+command+"@"+version); err != nil {
		return err
	}
	name := path.Base(command)
	out, err := exec.Command(filepath.Join(v.room, "bin", name), "-h").CombinedOutput()
	if len(out) == 0 {
		return fmt.Errorf("%s -h says nothing: %w", name, err)
	}
	fmt.Printf("go install %s@%s: ok\n", command, version)
	return nil
}

// builds builds the module in a checkout of its tag, which needs every line of its go.sum.
func (v visitor) builds(repository string, m *mod, version string) error {
	dir := filepath.Join(v.room, "checkout", m.prefix, version)
	if _, err := git(repository, "clone", "--quiet", "--branch", m.tag(version), ".", dir); err != nil {
		return err
	}
	return v.does(filepath.Join(dir, m.prefix), "build ./...")
}
