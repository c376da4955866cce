package main

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"strings"
)

func git(dir string, args ...string) (string, error) {
	c := exec.Command("git", args...)
	c.Dir = dir
	out, err := output(c)
	return strings.TrimSpace(out), err
}

// output runs a command. Its error has what the command said.
func output(c *exec.Cmd) (string, error) {
	out, err := c.Output()
	if err == nil {
		return string(out), nil
	}
	if failed, ok := errors.AsType[*exec.ExitError](err); ok {
		out = append(out, failed.Stderr...)
	}
	return "", fmt.Errorf("%s %s: %w\n%s", filepath.Base(c.Path), strings.Join(c.Args[1:], " "), err, out)
}

// A visitor has an empty module cache, and gets our modules from a repository by git, as if that
// were the public one. All others come from where they always come from, which includes the
// module cache of this machine.
type visitor struct {
	room string
	env  []string
}

func newVisitor(room, repository string) visitor {
	return visitor{room, append(os.Environ(),
		"GIT_CONFIG_COUNT=1",
		"GIT_CONFIG_KEY_0=url.file://"+filepath.ToSlash(repository)+".insteadOf",
		"GIT_CONFIG_VALUE_0=https://"+home,
		"GOPRIVATE="+path.Dir(home)+"/*", "GOPROXY="+proxies(),
		"GOMODCACHE="+filepath.Join(room, "cache"), "GOBIN="+filepath.Join(room, "bin"),
		"GOFLAGS=-modcacherw", "GOWORK=off", "GOTOOLCHAIN=local", "CGO_ENABLED=0")}
}

func proxies() string {
	out, err := exec.Command("go", "env", "GOMODCACHE", "GOPROXY").Output()
	cache, proxies, _ := strings.Cut(strings.TrimSpace(string(out)), "\n")
	if err != nil || cache == "" {
		return "off"
	}
	return "file://" + filepath.ToSlash(cache) + "/cache/download," + proxies
}

// goes runs the go command.
func (v visitor) goes(dir string, args ...string) (string, error) {
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return "", err
	}
	c := exec.Command("go", args...)
	c.Dir, c.Env = dir, v.env
	return output(c)
}
