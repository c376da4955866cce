package drill

import (
	"bytes"
	"net"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// start starts a drill with a broker that gets no further connections.
func start(t *testing.T, out *bytes.Buffer) *Drill {
	t.Helper()
	l := listen(t)
	defer l.Close()
	d, err := Start(out, l.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(d.Close)
	return d
}

func listen(t *testing.T) net.Listener {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	return l
}

func TestANumberIsYieldedUntilTheLoopGoesOn(t *testing.T) {
	d := start(t, new(bytes.Buffer))
	var seen []int
	for range 3 {
		for n := range d.Numbers(t.Context()) {
			seen = append(seen, n)
			if len(seen)%2 == 0 {
				break // not published
			}
		}
	}
	if want := []int{1, 2, 2, 3, 3, 4}; !slices.Equal(seen, want) {
		t.Errorf("got %v, want %v", seen, want)
	}
}

func TestADrillIsDoneWhenEveryMessageCameBack(t *testing.T) {
	var out bytes.Buffer
	d := start(t, &out)
	ctx, cancel := d.Context(t.Context())
	defer cancel()
	d.Received("not a number")
	for n := range Messages {
		if ctx.Err() != nil {
			t.Fatal("done too early")
		}
		d.Received(strconv.Itoa(n + 1))
		d.Received("5")
	}
	<-ctx.Done()
	r := d.Report()
	if r.Received != Messages || r.Repeated != Messages {
		t.Errorf("%d received and %d repeated, want %d and %d", r.Received, r.Repeated, Messages, Messages)
	}
	if n := strings.Count(out.String(), "the connection is cut"); n != 2 {
		t.Errorf("cut %d times, want 2:\n%s", n, &out)
	}
}

func TestADrillWithoutItsBrokerSaysSo(t *testing.T) {
	l := listen(t)
	l.Close()
	if _, err := Start(new(bytes.Buffer), l.Addr().String()); err == nil || !strings.Contains(err.Error(), "compose.yaml") {
		t.Errorf("got %v", err)
	}
}
