package real

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
)

// A module is a program of others. Its dir is a copy without tests, which can be built although it
// stands alone: without the replacements that lie beside it in its repository.
type module struct {
	path, version string
	replaced      string // the version of what it replaced and required in none
	dir           string
}

func (m module) String() string { return m.path + "@" + m.version }

func readModules(name string, only *regexp.Regexp) ([]module, error) {
	rows, err := readTable(name)
	if err != nil {
		return nil, err
	}
	var modules []module
	for _, row := range rows {
		m := module{path: row[0], version: row[1], replaced: row[2]}
		m.dir = filepath.Join(*work, strings.ReplaceAll(m.String(), "/", "_"))
		if only.MatchString(m.path) {
			modules = append(modules, m)
		}
	}
	return modules, nil
}

// prepare makes the copy, unless there is one.
func (m module) prepare() error {
	if _, err := os.Stat(m.dir); !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	source, err := m.download()
	if err != nil {
		return err
	}
	half := m.dir + ".half"
	if err := errors.Join(os.RemoveAll(half), copyModule(half, source), m.mendGoMod(half)); err != nil {
		return err
	}
	return os.Rename(half, m.dir)
}

func (m module) download() (dir string, err error) {
	out, err := m.goTool(*work, "mod", "download", "-json", m.String())
	if err != nil {
		return "", err
	}
	var answer struct{ Dir string }
	err = json.Unmarshal(out, &answer)
	return answer.Dir, err
}

func copyModule(to, from string) error {
	return filepath.WalkDir(from, func(name string, entry fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case entry.IsDir() && (entry.Name() == "testdata" || entry.Name() == "vendor"):
			return filepath.SkipDir
		case !entry.Type().IsRegular() || strings.HasSuffix(name, "_test.go"):
			return nil
		}
		return copyFile(filepath.Join(to, strings.TrimPrefix(name, from)), name)
	})
}

func copyFile(to, from string) error {
	content, err := os.ReadFile(from)
	if err != nil {
		return err
	}
	if err := os.MkdirAll(filepath.Dir(to), 0o755); err != nil {
		return err
	}
	return os.WriteFile(to, content, 0o644)
}

// mendGoMod drops the replacements by folders, which no module contains. Docker keeps its go.mod
// under another name.
func (m module) mendGoMod(dir string) error {
	name := filepath.Join(dir, "go.mod")
	if _, err := os.Stat(name); errors.Is(err, fs.ErrNotExist) {
		err := errors.Join(
			os.Rename(filepath.Join(dir, "vendor.mod"), name),
			os.Rename(filepath.Join(dir, "vendor.sum"), filepath.Join(dir, "go.sum")))
		if err != nil {
			return err
		}
	}
	content, err := os.ReadFile(name)
	if err != nil {
		return err
	}
	content = regexp.MustCompile(`(?m)^.* => \.\.?/.*$`).ReplaceAll(content, nil)
	if m.replaced != "" {
		content = regexp.MustCompile(`(?m) v0\.0\.0$`).ReplaceAll(content, []byte(" "+m.replaced))
	}
	return os.WriteFile(name, content, 0o644)
}

// goTool runs the go command in a folder, and returns what it prints.
func (m module) goTool(dir string, args ...string) ([]byte, error) {
	cmd := exec.Command("go", args...)
	cmd.Dir, cmd.Env = dir, m.environ()
	out, err := cmd.Output()
	var exit *exec.ExitError
	if errors.As(err, &exit) {
		err = fmt.Errorf("go %s: %w: %s", strings.Join(args, " "), err, exit.Stderr)
	}
	return out, err
}

// environ returns the environment in which a module stands alone.
func (m module) environ() []string {
	return append(os.Environ(), "GOFLAGS=-mod=mod", "GOWORK=off", "CGO_ENABLED=0")
}
