package main

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"
)

// A process is a child of the drill.
type process struct {
	address string
	log     string // file
	task    task
	cmd     *exec.Cmd
	orders  io.WriteCloser
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
	p := &process{task: t, log: log, cmd: exec.Command(program)}
	p.cmd.Env = append(os.Environ(), childVariable+"=1")
	p.cmd.Stderr = file
	out, err := p.cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	if p.orders, err = p.cmd.StdinPipe(); err != nil {
		return nil, err
	}
	if err := p.cmd.Start(); err != nil {
		return nil, err
	}
	if err := json.NewEncoder(p.orders).Encode(t); err != nil {
		p.kill()
		return nil, err
	}
	line, err := bufio.NewReader(out).ReadString('\n')
	if err != nil {
		p.kill()
		said, _ := os.ReadFile(log)
		return nil, fmt.Errorf("%s did not start: %s", t.Process, said)
	}
	p.address = strings.TrimSpace(line)
	return p, nil
}

// order sends a line to the process.
func (p *process) order(text string) error {
	_, err := fmt.Fprintln(p.orders, text)
	return err
}

// kill ends the process at once, as if it had crashed.
func (p *process) kill() {
	_ = p.cmd.Process.Kill()
	_ = p.orders.Close()
	_ = p.cmd.Wait()
}
