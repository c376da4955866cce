package main

import (
	"cmp"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/exec"
	"time"
)

// An order says what a child process does.
type order struct {
	Role  string // "service" or "fleet"
	Setup setup
	// The rest is for a fleet.
	Client    string
	Addresses []string
	Begin     time.Time
}

// roles are what a child process can do.
var roles = map[string]func(order, *json.Decoder, *json.Encoder) error{"service": serve, "fleet": callService}

// inChild is set in the environment of a child process.
const inChild = "FIELD_CHILD"

// obey is the main function of a child process.
func obey(in io.Reader, out io.Writer) error {
	d := json.NewDecoder(in)
	var o order
	if err := d.Decode(&o); err != nil {
		return err
	}
	return roles[o.Role](o, d, json.NewEncoder(out))
}

// A child is a child process.
type child struct {
	*exec.Cmd
	*json.Encoder
	*json.Decoder
	input io.Closer
}

// start starts a process of this program, and tells it what to do.
func start(o order) (*child, error) {
	program, err := os.Executable()
	if err != nil {
		return nil, err
	}
	c := exec.Command(program)
	c.Env = append(os.Environ(), inChild+"=1")
	c.Stderr = os.Stderr
	in, err1 := c.StdinPipe()
	out, err2 := c.StdoutPipe()
	if err := cmp.Or(err1, err2); err != nil {
		return nil, err
	}
	if err := c.Start(); err != nil {
		return nil, err
	}
	p := &child{c, json.NewEncoder(in), json.NewDecoder(out), in}
	return p, p.Encode(o)
}

// end waits for the last words of a process, and returns how many processors it
// has used on average.
func (c *child) end(last any, s setup) (processors float64, err error) {
	if err := c.Decode(last); err != nil {
		return 0, fmt.Errorf("%w; %v", err, c.Wait())
	}
	err = c.Wait()
	return (c.ProcessState.UserTime() + c.ProcessState.SystemTime()).Seconds() / s.Horizon.Seconds(), err
}

// measure runs a client against a service.
func measure(s setup, name string) (*run, error) {
	service, err := start(order{Role: "service", Setup: s})
	if err != nil {
		return nil, err
	}
	defer service.Process.Kill()
	o := order{Role: "fleet", Setup: s, Client: name}
	if err := service.Decode(&o.Addresses); err != nil {
		return nil, err
	}
	o.Begin = time.Now().Add(time.Second)
	if err := service.Encode(o.Begin); err != nil {
		return nil, err
	}
	calls, err := start(o)
	if err != nil {
		return nil, err
	}
	defer calls.Process.Kill()
	r := &run{Client: name, Setup: s, Date: o.Begin.UTC().Format(time.DateOnly), Machine: machine()}
	if r.FleetCPU, err = calls.end(&r.Fleet, s); err != nil {
		return nil, err
	}
	service.input.Close()
	r.ServiceCPU, err = service.end(&r.Service, s)
	return r, err
}
