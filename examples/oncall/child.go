package main

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"time"
)

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
	obey := func(string) {}
	server := &http.Server{ReadHeaderTimeout: 10 * time.Second}
	if t.Upstreams == nil {
		u := newUpstream()
		server.Handler, obey = u, u.behave
	} else {
		server.Handler = newService(t, log)
	}
	go server.Serve(listener)
	fmt.Fprintln(out, listener.Addr())
	for lines.Scan() {
		obey(lines.Text())
	}
	return server.Close()
}
