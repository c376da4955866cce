package main

import (
	"fmt"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"strings"
)

// prove uses each module as its first user will.
func prove(modules []*mod, version, proxy string) error {
	room, err := os.MkdirTemp("", "user")
	if err != nil {
		return err
	}
	defer os.RemoveAll(room)
	u := user{room: room, proxy: proxy, version: version}
	for _, m := range modules {
		if err := u.use(m); err != nil {
			return fmt.Errorf("%s %s as a user gets it: %w", m.path, version, err)
		}
	}
	return nil
}

// A user has an empty module cache, an empty directory for each module, and no
// other file of the repository.
type user struct{ room, proxy, version string }

func (u user) use(m *mod) error {
	if len(m.packages) > 0 {
		if err := u.imports(m); err != nil {
			return err
		}
	}
	for _, command := range m.commands {
		if err := u.installs(command); err != nil {
			return err
		}
	}
	return nil
}

// imports adds the module to an empty one, and runs a program that imports all
// of its packages.
func (u user) imports(m *mod) error {
	dir := filepath.Join(u.room, strings.ReplaceAll(path.Join("module", m.prefix), "/", "-"))
	if err := os.Mkdir(dir, 0o755); err != nil {
		return err
	}
	var program strings.Builder
	program.WriteString("package main\n\nimport (\n")
	for _, p := range m.packages {
		fmt.Fprintf(&program, "\t_ %q\n", p)
	}
	program.WriteString(")\n\nfunc main() { println(\"ok\") }\n")
	if err := os.WriteFile(filepath.Join(dir, "main.go"), []byte(program.String()), 0o644); err != nil {
		return err
	}
	for _, args := range [][]string{{"mod", "init", "example.com/user"}, {"get", m.path + "@" + u.version}, {"mod", "tidy"}, {"run", "."}} {
		if err := u.goes(dir, args...); err != nil {
			return err
		}
	}
	fmt.Printf("go get %s@%s: ok, %d packages\n", m.path, u.version, len(m.packages))
	return nil
}

// installs installs a command and has it print its usage.
func (u user) installs(command string) error {
	if err := u.goes(u.room, "install", command+"@"+u.version); err != nil {
		return err
	}
	name := filepath.Join(u.room, "bin", path.Base(command))
	out, err := exec.Command(name, "-h").CombinedOutput()
	if len(out) == 0 {
		return fmt.Errorf("%s -h says nothing: %w", path.Base(command), err)
	}
	fmt.Printf("go install %s@%s: ok\n", command, u.version)
	return nil
}

// goes runs the go command with an empty module cache, and the new proxy before
// the usual ones.
func (u user) goes(dir string, args ...string) error {
	others, err := exec.Command("go", "env", "GOPROXY").Output()
	if err != nil {
		return err
	}
	c := exec.Command("go", args...)
	c.Dir = dir
	c.Env = append(os.Environ(),
		"GOPROXY=file://"+filepath.ToSlash(u.proxy)+","+strings.TrimSpace(string(others)),
		"GONOSUMDB="+path.Dir(home)+"/*", "GOPRIVATE=", "GONOPROXY=",
		"GOMODCACHE="+filepath.Join(u.room, "cache"), "GOBIN="+filepath.Join(u.room, "bin"),
		"GOFLAGS=-modcacherw", "GOWORK=off", "CGO_ENABLED=0")
	if out, err := c.CombinedOutput(); err != nil {
		return fmt.Errorf("go %s: %w\n%s", strings.Join(args, " "), err, out)
	}
	return nil
}
