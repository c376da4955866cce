package main

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"strings"
	"time"
)

// childVariable is the environment variable that makes the program a child.
const childVariable = "ONCALL_CHILD"

// A task is what a child process is started for. It is the first line of its
// standard input. When that ends, the child ends, and so none outlives its
// parent, however the parent ends.
type task struct {
	Address   string            // to listen on
	Process   string            // the name of the process in logs
	Upstreams map[string]string // of a service: their addresses by host
	Tokens    map[string]string // of a service: those of the people on call
}

// runChild runs a service, or an upstream if there are none to call. It writes
// its address to out when it is ready, and its log to log.
func runChild(in io.Reader, out, log io.Writer) error {
	lines := bufio.NewScanner(in)
	if !lines.Scan() {
		return fmt.Errorf("no task: %w", lines.Err())
	}
	var t task
	if err := json.Unmarshal(lines.Bytes(), &t); err != nil {
		return fmt.Errorf("task: %w", err)
	}
	listener, err := net.Listen("tcp", t.Address)
	if err != nil {
		return err
	}
	command := func(string) {}
	server := &http.Server{ReadHeaderTimeout: 10 * time.Second}
	if t.Upstreams == nil {
		u := newUpstream()
		server.Handler, command = u.handler(), u.setMode
	} else {
		server.Handler = newService(t, log)
	}
	go server.Serve(listener)
	fmt.Fprintln(out, listener.Addr())
	for lines.Scan() {
		command(lines.Text())
	}
	return server.Close()
}

// A process is a child of the drill.
type process struct {
	name, address string
	log           string // file
	cmd           *exec.Cmd
	stdin         io.WriteCloser
}

// launch starts this program again for a task, and returns when the process
// serves.
func launch(t task, log string) (*process, error) {
	program, err := os.Executable()
	if err != nil {
		return nil, err
	}
	file, err := os.OpenFile(log, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return nil, err
	}
	defer file.Close() // the child has its own
	p := &process{name: t.Process, log: log, cmd: exec.Command(program)}
	p.cmd.Env = append(os.Environ(), childVariable+"=1")
	p.cmd.Stderr = file
	out, err := p.cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	if p.stdin, err = p.cmd.StdinPipe(); err != nil {
		return nil, err
	}
	if err := p.cmd.Start(); err != nil {
		return nil, err
	}
	if err := json.NewEncoder(p.stdin).Encode(t); err != nil {
		p.kill()
		return nil, err
	}
	line, err := bufio.NewReader(out).ReadString('\n')
	if err != nil {
		p.kill()
		said, _ := os.ReadFile(log)
		return nil, fmt.Errorf("%s did not start: %s", p.name, said)
	}
	p.address = strings.TrimSpace(line)
	return p, nil
}

// send sends a line to the process.
func (p *process) send(text string) error {
	_, err := fmt.Fprintln(p.stdin, text)
	return err
}

// kill ends the process at once, as if it had crashed.
func (p *process) kill() {
	_ = p.cmd.Process.Kill()
	_ = p.stdin.Close()
	_ = p.cmd.Wait()
}
