//go:build integration

package sqltest

import (
	"context"
	"io"
	"net"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// A place is a directory in which servers run that refuse to run as root.
type place struct {
	dir string
	as  *syscall.SysProcAttr
}

// newPlace makes a directory. If the tests run as root, its servers run as the user
// postgres. What still runs at the end of the test is killed.
func newPlace(t *testing.T) *place {
	dir, err := os.MkdirTemp("", "sqltest")
	require.NoError(t, err)
	t.Cleanup(func() { os.RemoveAll(dir) })
	p := &place{dir: dir, as: &syscall.SysProcAttr{Setpgid: true}}
	if os.Getuid() == 0 {
		u, err := user.Lookup("postgres")
		require.NoError(t, err)
		uid, _ := strconv.Atoi(u.Uid)
		gid, _ := strconv.Atoi(u.Gid)
		p.as.Credential = &syscall.Credential{Uid: uint32(uid), Gid: uint32(gid)}
		require.NoError(t, os.Chown(dir, uid, gid))
	}
	return p
}

// command returns a program that is to run in the place.
func (p *place) command(ctx context.Context, name string, args ...string) *exec.Cmd {
	cmd := exec.CommandContext(ctx, name, args...)
	cmd.Dir, cmd.SysProcAttr = p.dir, p.as
	return cmd
}

// run runs a program to its end.
func (p *place) run(t *testing.T, name string, args ...string) {
	out, err := p.command(context.Background(), name, args...).CombinedOutput()
	require.NoError(t, err, "%s %v: %s", name, args, out)
}

// A daemon is a server that a test starts and ends.
type daemon struct {
	t     *testing.T
	start func() *exec.Cmd
	addr  string
	cmd   *exec.Cmd
	log   *strings.Builder
}

// up starts the server, and waits until it takes connections.
func (d *daemon) up() {
	d.cmd, d.log = d.start(), new(strings.Builder)
	d.cmd.Stdout, d.cmd.Stderr = d.log, d.log
	require.NoError(d.t, d.cmd.Start())
	require.Eventually(d.t, func() bool {
		conn, err := net.Dial("tcp", d.addr)
		if err == nil {
			conn.Close()
		}
		return err == nil
	}, 20*time.Second, 10*time.Millisecond, "%v does not listen", d.cmd)
}

// down sends a signal, and waits until the server has ended.
func (d *daemon) down(signal syscall.Signal) {
	if d.cmd == nil {
		return
	}
	d.cmd.Process.Signal(signal)
	d.cmd.Wait()
	syscall.Kill(-d.cmd.Process.Pid, syscall.SIGKILL) // what it started
	d.cmd = nil
}

// newDaemon starts a server, which ends with the test.
func newDaemon(t *testing.T, addr string, start func() *exec.Cmd) *daemon {
	d := &daemon{t: t, addr: addr, start: start}
	t.Cleanup(func() {
		d.down(syscall.SIGQUIT)
		if t.Failed() {
			t.Logf("%s says:\n%s", d.addr, d.log)
		}
	})
	d.up()
	return d
}

// freePort returns a port of loopback that nobody listened on a moment ago.
func freePort(t *testing.T) string {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	defer l.Close()
	_, port, err := net.SplitHostPort(l.Addr().String())
	require.NoError(t, err)
	return port
}

// A name is an address whose new connections go to one server, and later to
// another one, as those to the name of a primary.
type name struct {
	net.Listener
	target atomic.Pointer[string]
}

func newName(t *testing.T, target string) *name {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	n := &name{Listener: l}
	n.target.Store(&target)
	var links sync.WaitGroup
	links.Go(func() {
		for {
			client, err := l.Accept()
			if err != nil {
				return
			}
			links.Go(func() { n.link(client) })
		}
	})
	t.Cleanup(func() { l.Close(); links.Wait() })
	return n
}

// link passes on what both ends send, until one of them ends.
func (n *name) link(client net.Conn) {
	defer client.Close()
	server, err := net.Dial("tcp", *n.target.Load())
	if err != nil {
		return
	}
	defer server.Close()
	go func() {
		io.Copy(server, client)
		server.Close()
	}()
	io.Copy(client, server)
}

// binary returns the path of a program. Debian keeps those of PostgreSQL's server
// out of the PATH, and pgbouncer out of that of users.
func binary(t *testing.T, name string) string {
	path, err := exec.LookPath(name)
	for _, dir := range []string{"/usr/lib/postgresql/*/bin/", "/usr/sbin/"} {
		if found, _ := filepath.Glob(dir + name); err != nil && len(found) > 0 {
			return found[len(found)-1]
		}
	}
	require.NoError(t, err, "CONTRIBUTING.md says which programs these tests need")
	return path
}
