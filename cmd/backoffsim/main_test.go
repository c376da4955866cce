package main

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// program is the built command.
var program string

func TestMain(m *testing.M) {
	os.Exit(func() int {
		dir, err := os.MkdirTemp("", "backoffsim")
		if err != nil {
			panic(err)
		}
		defer os.RemoveAll(dir)
		program = filepath.Join(dir, "backoffsim.exe")
		if out, err := exec.Command("go", "build", "-buildvcs=false", "-o", program, ".").CombinedOutput(); err != nil {
			fmt.Fprintf(os.Stderr, "%s", out)
			return 1
		}
		return m.Run()
	}())
}

// execute runs the program, and returns its exit status and its output.
func execute(t *testing.T, in string, args ...string) (status int, out, err string) {
	t.Helper()
	c := exec.Command(program, args...)
	var stdout, stderr bytes.Buffer
	c.Stdin, c.Stdout, c.Stderr = strings.NewReader(in), &stdout, &stderr
	if failed := c.Run(); failed != nil {
		exit, ok := errors.AsType[*exec.ExitError](failed)
		require.True(t, ok, "%v", failed)
		status = exit.ExitCode()
	}
	return status, stdout.String(), stderr.String()
}

// succeed runs the program, which must end with status 0 and print nothing to
// the standard error.
func succeed(t *testing.T, args ...string) string {
	t.Helper()
	status, out, err := execute(t, "", args...)
	require.Empty(t, err)
	require.Zero(t, status)
	return out
}

// file writes a file for the program to read.
func file(t *testing.T, name, text string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), name)
	require.NoError(t, os.WriteFile(path, []byte(text), 0o600))
	return path
}

func TestEveryCommandExplainsItself(t *testing.T) {
	help := succeed(t, "-h")
	for _, c := range commands {
		require.Contains(t, help, c.name+" ")
		own := succeed(t, c.name, "-h")
		require.Contains(t, own, "usage: backoffsim "+c.name)
		require.Contains(t, own, "\n  -")
	}
}

func TestWrongUsageIsOneLineAndStatus2(t *testing.T) {
	for args, want := range map[string]string{
		"simulate":                               `backoffsim: there is no command "simulate"; see backoffsim -h`,
		"policy -deadlin 3s":                     `backoffsim policy: flag provided but not defined: -deadlin; see backoffsim policy -h`,
		"policy default":                         `backoffsim policy: "default" is not a flag; see backoffsim policy -h`,
		"policy -policy missing":                 `backoffsim policy: policy "missing" is neither a file nor a name; see backoffsim policy -list`,
		"policy -policy default -policy default": `backoffsim policy: policy "default" is there twice`,
		"policy -retries 1001":                   `backoffsim policy: -retries must be 0 to 1000`,
		"policy -deadline -1s":                   `backoffsim policy: -deadline must not be negative`,
		"import":                                 `backoffsim import: want one file; see backoffsim import -h`,
		"dip -depth 2":                           `backoffsim dip: -depth is 2, want 0 (for all of it) to 1`,
		"dip -rate 10 -users 3":                  `backoffsim dip: -rate and -users exclude one another`,
		"dip -seeds 0":                           `backoffsim dip: -seeds is 0, want 1 to 100000`,
		"dip -min-success 95":                    `backoffsim dip: -min-success is 95, want 0 (for no limit) to 1`,
		"dip -find-cliff seeds":                  `backoffsim dip: -find-cliff is "seeds", want load or dip`,
		"dip -p50 3s":                            `backoffsim dip: -p50 and -p99 belong together`,
		"run":                                    `backoffsim run: there is no traffic: want one of -rate, -load, -every, -users, -trace`,
		"run -rate 10":                           `backoffsim run: there is no service: want -capacity, -service, or -p50 and -p99`,
		"run -rate 1 -capacity 0":                `backoffsim run: -capacity is 0, want more than 0 per second`,
		"run -rate 1 -capacity .1 -service 1s":   `backoffsim run: -capacity is 0.1, want at least 1 for a mean service time of 1s`,
		"chain -p 1.5":                           `backoffsim chain: invalid value "1.5" for flag -p: "1.5" is not a number from 0 to 1; see backoffsim chain -h`,
		"chain -fault-errors 1":                  `backoffsim chain: -fault-errors is called -p here`,
		"herd -clients 0":                        `backoffsim herd: -clients is 0, want 1 to 10000000`,
		"dip -warn-only -must-recover 60s":       `backoffsim dip: -warn-only runs nothing, and so holds nothing against a gate`,
		"dip -fault 0 -must-recover 60s":         `backoffsim dip: -must-recover and -find-cliff want a fault, with calls that go on after it`,
		"herd -fault 5s -must-recover 60s":       `backoffsim herd: -must-recover and -find-cliff want a fault, with calls that go on after it`,
		"chain -fault 0 -find-cliff dip":         `backoffsim chain: -must-recover and -find-cliff want a fault, with calls that go on after it`,
		"dip -svg no/such/x.svg":                 `backoffsim dip: no/such/x.svg cannot be written: there is no directory no/such`,
		"dip -trace testdata/trace.csv":          `backoffsim dip: -trace has calls for 3s, and the fault ends at 40s: want -fault-at and -fault to leave 5s of them, or -fault 0`,
		"dip -fault-at 2562047h -fault 2562047h": `backoffsim dip: -fault-at + -fault is 2562047h47m16.854775807s, want less than the -horizon of 4m0s`,
		"ratelimit -calls 0":                     `backoffsim ratelimit: a job has a number of -calls, and is done by -users; for other traffic there is backoffsim run`,
		"ratelimit -rate 5":                      `backoffsim ratelimit: a job has a number of -calls, and is done by -users; for other traffic there is backoffsim run`,
	} {
		status, out, err := execute(t, "", strings.Fields(args)...)
		require.Equal(t, 2, status, args)
		require.Equal(t, want+"\n", err, args)
		require.Empty(t, out, args)
	}
	status, out, _ := execute(t, "")
	require.Equal(t, 2, status)
	require.Contains(t, out, "Commands")
}

// The tests of package spec have all rules. This one is about files.
func TestABadPolicyFileGetsOneLineWithFilePathAndValue(t *testing.T) {
	for text, want := range map[string]string{
		`{"schedule": {"exponential": {"multiplier": 0.5}}}`: `schedule.exponential.multiplier is 0.5, want 0 (for 2) or at least 1`,
		"schedule:\n  exponential:\n    multiplier: 0.5\n":   `schedule.exponential.multiplier is 0.5, want 0 (for 2) or at least 1`,
		"maxElapsed: 30\n":                          `maxElapsed is 30, want a duration of 0 or more, such as "1.5s", or -1 where there may be no limit`,
		"budget:\n  retry:\n":                       `budget.retry is null, want an object`,
		"maxAttempt: 3\n":                           `maxAttempt is not known, did you mean maxAttempts?`,
		"maxAttempts: 3\nmaxAttempts: 4\n":          `yaml: unmarshal errors: line 2: mapping key "maxAttempts" already defined at line 1`,
		"name: a\n---\nname: b\n":                   `has 2 documents, want one policy`,
		"just a text\n":                             `the policy is "just a text", want an object`,
		"breaker: {slowRate: .nan}\n":               `breaker.slowRate is "NaN", want a number of 0 or more, or -1 for none`,
		"maxElapsed: 0000-01-01T00:00:00+24:00\n":   `maxElapsed is "0000-01-01T00:00:00+24:00", want a duration of 0 or more, such as "1.5s", or -1 where there may be no limit`,
		"name: [\n":                                 `yaml: line 1: did not find expected node content`,
		"{\n  \"name\": \"x\",\n}":                  `line 3, column 1: invalid character '}' looking for beginning of object key string`,
		"":                                          `is empty`,
		"- {" + strings.Repeat("b, ", 1001) + "}\n": `yaml: line 1: the object has more than 1000 members`,
	} {
		path := file(t, "mine", text)
		status, out, err := execute(t, "", "policy", "-policy", path)
		require.Equal(t, 2, status, text)
		require.Equal(t, "backoffsim policy: "+path+": "+want+"\n", err, text)
		require.Empty(t, out)
	}
	status, _, err := execute(t, `{"jitter": "some"}`, "dip", "-policy", "-")
	require.Equal(t, 2, status)
	require.Equal(t, "backoffsim dip: -: jitter is \"some\", want none, full, equal, or an object with one of decorrelated, uniform, added, slotted\n", err)
}

// What a terminal would take for a command is shown, and not sent.
func TestAFileSendsNoEscapesToTheTerminal(t *testing.T) {
	for _, text := range []string{
		`{"\u001b[2J": 1}`, "\u009b2J\u202e: 1", `{"schedule": "\u001b[2J"}`,
		`{"name": "\u001b[2J\u009b2J\u202e", "maxAttempts": 2}`,
	} {
		_, out, err := execute(t, "", "policy", "-policy", file(t, "policy", text))
		require.NotRegexp(t, "[\x1b\u009b\u202e]", out+err)
		require.NotEmpty(t, out+err)
	}
}

// zeros is a file without an end.
type zeros struct{}

func (zeros) Read(p []byte) (int, error) { clear(p); return len(p), nil }

func TestAFileThatIsTooLargeIsNotReadToItsEnd(t *testing.T) {
	_, err := (&terminal{in: zeros{}}).load("-")
	require.EqualError(t, err, "-: is larger than 4 MiB")
	path := file(t, "large", "{"+strings.Repeat(" ", 4<<20)+"}")
	_, err = new(terminal).load(path)
	require.EqualError(t, err, path+": is larger than 4 MiB")
}

func TestAPolicyFileMayBeginWithAByteOrderMark(t *testing.T) {
	_, err := parseSpec([]byte("\ufeff{\n\t\"maxAttempts\": 3,\n\t\"maxAttempts\": 4\n}"))
	require.EqualError(t, err, "maxAttempts is there twice", "as JSON")
	_, err = parseSpec([]byte("\ufeffmaxAttempts: 3"))
	require.NoError(t, err)
}
