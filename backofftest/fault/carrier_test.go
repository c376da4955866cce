package fault_test

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/gobackoff/backoff"
	"github.com/gobackoff/backoff/backofftest/fault"
)

// A shop carries out orders, and counts them.
type shop struct{ effects int }

func (s *shop) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if _, err := io.Copy(io.Discard, r.Body); err != nil {
		return
	}
	s.effects++
	w.Header().Set("Retry-After", "7")
	io.WriteString(w, text)
}

// order sends one order, and reads the response.
func order(ctx context.Context, rt http.RoundTripper) (*http.Response, string, error) {
	r, _ := http.NewRequestWithContext(ctx, http.MethodPost, "http://shop/orders", strings.NewReader("hello"))
	resp, err := rt.RoundTrip(r)
	if err != nil {
		return nil, "", err
	}
	defer resp.Body.Close()
	got, err := io.ReadAll(resp.Body)
	return resp, string(got), err
}

func TestATransportBringsAboutEachFault(t *testing.T) {
	for _, c := range []struct {
		fault   fault.Fault
		effects int
		status  int
		body    string
		err     error
		took    time.Duration
	}{
		{fault.OK(), 1, 200, text, nil, 0},
		{fault.Status(503), 0, 503, "", nil, 0},
		{fault.Status(200).Body("<html>"), 0, 200, "<html>", nil, 0},
		{fault.Reset(), 0, 0, "", syscall.ECONNRESET, 0},
		{fault.Lost(), 1, 0, "", syscall.ECONNRESET, 0},
		{fault.Cut(3), 1, 200, text[:3], syscall.ECONNRESET, 0},
		{fault.Cut(-1), 1, 200, "", syscall.ECONNRESET, 0},
		{fault.Cut(100), 1, 200, text, syscall.ECONNRESET, 0},
		{fault.Slow(time.Second), 1, 200, text, nil, time.Second},
		{fault.Slow(-1), 1, 200, text, nil, 0},
		{fault.Hang(), 1, 0, "", context.DeadlineExceeded, time.Minute},
	} {
		synctest.Test(t, func(t *testing.T) {
			ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
			defer cancel()
			server, sent := new(shop), &fault.Injector{Plan: fault.Script(c.fault)}
			began := time.Now()
			resp, got, err := order(ctx, sent.Handler(server))
			require.ErrorIs(t, err, c.err, c.fault)
			require.Equal(t, c.took, time.Since(began), c.fault)
			require.Equal(t, c.effects, server.effects, c.fault)
			require.Equal(t, c.body, got, c.fault)
			if c.status != 0 {
				require.Equal(t, c.status, resp.StatusCode, c.fault)
				require.Equal(t, "/orders", resp.Request.URL.Path)
			}
			sent.Check(t, 1, fault.Closed)
			_, _, err = order(ctx, sent.Handler(server))
			if ctx.Err() == nil {
				require.NoError(t, err)
			}
		})
	}
}

// closable notes that it was closed.
type closable struct {
	io.Reader
	closed chan struct{}
}

func (c closable) Close() error { close(c.closed); return nil }

func TestTheBodyOfARequestIsClosedUnderEachFault(t *testing.T) {
	for _, f := range []fault.Fault{fault.OK(), fault.Status(503), fault.Reset(), fault.Lost(), fault.Hang()} {
		synctest.Test(t, func(t *testing.T) {
			ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
			defer cancel()
			body := closable{strings.NewReader("hello"), make(chan struct{})}
			r, err := http.NewRequestWithContext(ctx, http.MethodPost, "http://shop/orders", body)
			require.NoError(t, err)
			resp, err := (&fault.Injector{Plan: always(f)}).Handler(new(shop)).RoundTrip(r)
			if err == nil {
				resp.Body.Close()
			}
			<-body.closed
		})
	}
}

func TestTheResponseThatIsLostIsClosed(t *testing.T) {
	body := closable{strings.NewReader("hello"), make(chan struct{})}
	b := &base{resp: &http.Response{StatusCode: 200, Body: body}}
	_, _, err := order(t.Context(), (&fault.Injector{Plan: always(fault.Lost())}).Transport(b))
	require.ErrorIs(t, err, syscall.ECONNRESET)
	<-body.closed
}

func TestAStatusAsksForAWaitInWholeSeconds(t *testing.T) {
	for d, want := range map[time.Duration]string{-1: "", 0: "", 1: "1", time.Second: "1", 1500 * time.Millisecond: "2"} {
		resp, _, err := order(t.Context(), (&fault.Injector{Plan: always(fault.Status(503).RetryAfter(d))}).Handler(new(shop)))
		require.NoError(t, err)
		require.Equal(t, want, resp.Header.Get("Retry-After"))
	}
}

func TestAHandlerGetsTheRequestOfAServer(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	handler := new(fault.Injector).Handler(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		require.Equal(t, []string{"GET", "shop", "/a%2Fb?x=1", "v"}, []string{r.Method, r.Host, r.RequestURI, r.Header.Get("k")})
		require.Equal(t, http.NoBody, r.Body)
		r.Header.Set("k", "w")
		cancel()
		<-r.Context().Done()
	}))
	r, err := http.NewRequestWithContext(ctx, "", "http://shop/a%2Fb?x=1", nil)
	require.NoError(t, err)
	r.Header.Set("k", "v")
	r.Host = "" // that of the URL counts
	_, err = handler.RoundTrip(r)
	require.ErrorIs(t, err, context.Canceled)
	require.Equal(t, "v", r.Header.Get("k"))
}

func TestAnOperationHasTheFaults(t *testing.T) {
	for _, c := range []struct {
		fault fault.Fault
		calls int
		err   error
		took  time.Duration
	}{
		{fault.OK(), 1, nil, 0},
		{fault.Reset(), 0, syscall.ECONNRESET, 0},
		{fault.Lost(), 1, syscall.ECONNRESET, 0},
		{fault.Cut(1), 1, syscall.ECONNRESET, 0},
		{fault.Slow(time.Second), 1, nil, time.Second},
		{fault.Slow(time.Hour), 1, context.DeadlineExceeded, time.Minute},
		{fault.Hang(), 1, context.DeadlineExceeded, time.Minute},
	} {
		synctest.Test(t, func(t *testing.T) {
			ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
			defer cancel()
			calls, began := 0, time.Now()
			sent := &fault.Injector{Plan: fault.Script(c.fault)}
			err := sent.Op(func(context.Context) error { calls++; return nil })(ctx)
			require.ErrorIs(t, err, c.err, c.fault)
			require.Equal(t, c.calls, calls, c.fault)
			require.Equal(t, c.took, time.Since(began), c.fault)
		})
	}
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		err := (&fault.Injector{Plan: always(fault.Hang())}).Op(func(context.Context) error { return io.EOF })(ctx)
		require.Equal(t, context.DeadlineExceeded, err)
	})
	err := (&fault.Injector{Plan: always(fault.Status(429).RetryAfter(time.Minute))}).Op(nil)(t.Context())
	after, ok := backoff.RetryAfterOf(err)
	require.True(t, ok)
	require.Equal(t, time.Minute, after)
	require.ErrorContains(t, err, "429 Too Many Requests")
}

// pipes is a network without sockets: dial reaches the listener.
type pipes chan net.Conn

func (p pipes) dial(context.Context, string, string) (net.Conn, error) {
	client, server := net.Pipe()
	p <- server
	return client, nil
}

func (p pipes) Accept() (net.Conn, error) {
	if c, ok := <-p; ok {
		return c, nil
	}
	return nil, net.ErrClosed
}
func (p pipes) Close() error   { close(p); return nil }
func (p pipes) Addr() net.Addr { return &net.TCPAddr{} }

// Each fault does the same at the client and at the server, in virtual time.
func TestAConnectionHasTheFaultsAtBothEnds(t *testing.T) {
	for _, c := range []struct {
		fault   fault.Fault
		effects int
		fails   bool
		took    time.Duration
	}{
		{fault.OK(), 1, false, 0},
		{fault.Status(503), 0, false, 0},
		{fault.Reset(), 0, true, 0},
		{fault.Lost(), 1, true, 0},
		{fault.Cut(20), 1, true, 0},
		{fault.Slow(time.Second), 1, false, time.Second},
		{fault.Hang(), 1, true, time.Minute},
	} {
		for _, server := range []bool{false, true} {
			synctest.Test(t, func(t *testing.T) {
				sent := &fault.Injector{Plan: fault.Script(c.fault)}
				network, orders := make(pipes), new(shop)
				listener, dial := net.Listener(network), network.dial
				if server {
					listener = sent.Listen(network)
				} else {
					dial = sent.Dial(network.dial)
				}
				s := &http.Server{Handler: orders}
				go s.Serve(listener)
				base := &http.Transport{DialContext: dial}
				began := time.Now()
				ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
				defer cancel()
				resp, _, err := order(ctx, base)
				require.Equal(t, c.fails, err != nil, "%v %v", c.fault, err)
				require.Equal(t, c.took, time.Since(began), c.fault)
				base.CloseIdleConnections()
				s.Close()
				synctest.Wait()
				require.Equal(t, c.effects, orders.effects, c.fault)
				if c.fault == fault.Status(503) {
					require.Equal(t, 503, resp.StatusCode)
				}
				sent.Check(t, 1)
				made := sent.Attempts()[0]
				require.Equal(t, c.fault == fault.Reset(), errors.Is(made.Err, syscall.ECONNRESET))
				require.Equal(t, c.fault == fault.Status(503), made.Status == 503)
			})
		}
	}
}

// dialled returns a connection under a fault, and its other end.
func dialled(t *testing.T, f fault.Fault) (client, server net.Conn) {
	inner, server := net.Pipe()
	dial := (&fault.Injector{Plan: always(f)}).Dial(func(context.Context, string, string) (net.Conn, error) { return inner, nil })
	client, err := dial(t.Context(), "tcp", "shop:1")
	require.NoError(t, err)
	return client, server
}

func TestAConnectionThatHangsKeepsItsDeadline(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, server := dialled(t, fault.Hang())
		defer c.Close()
		go io.Copy(server, server)
		_, err := fmt.Fprintln(c, "hello")
		require.NoError(t, err)
		began := time.Now()
		time.AfterFunc(time.Second, func() { c.SetDeadline(began.Add(2 * time.Second)) }) // also while it hangs
		_, err = c.Read(make([]byte, 10))
		var timeout net.Error
		require.ErrorAs(t, err, &timeout)
		require.True(t, timeout.Timeout())
		require.Equal(t, 2*time.Second, time.Since(began))
	})
}

// A bubble fails if a goroutine is left.
func TestTheEndOfEitherSideEndsTheConnection(t *testing.T) {
	for _, f := range []fault.Fault{fault.OK(), fault.Hang(), fault.Slow(time.Hour), fault.Status(503)} {
		synctest.Test(t, func(t *testing.T) {
			c, server := dialled(t, f)
			go io.Copy(io.Discard, server)
			_, err := fmt.Fprintln(c, "hello")
			require.NoError(t, err)
			synctest.Wait()
			go fmt.Fprintln(server, "hello")
			synctest.Wait()
			began := time.Now()
			require.NoError(t, c.Close())
			synctest.Wait()
			_, err = server.Write([]byte("x"))
			require.ErrorIs(t, err, io.ErrClosedPipe)
			require.Zero(t, time.Since(began))
		})
	}
	synctest.Test(t, func(t *testing.T) {
		c, server := dialled(t, fault.OK())
		go func() {
			fmt.Fprint(server, "bye")
			server.Close()
		}()
		got, err := io.ReadAll(c)
		require.NoError(t, err)
		require.Equal(t, "bye", string(got))
		_, err = c.Write([]byte("x"))
		require.ErrorIs(t, err, io.ErrClosedPipe)
	})
}

// What was written before Close arrives.
func TestACloseLosesNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, server := dialled(t, fault.OK())
		go func() {
			fmt.Fprint(c, "hello")
			c.Close()
		}()
		time.Sleep(time.Second) // the server is slow
		got, err := io.ReadAll(server)
		require.NoError(t, err)
		require.Equal(t, "hello", string(got))
	})
}

func TestABrokenConnectionIsOneThatWasReset(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, server := dialled(t, fault.Reset())
		_, err := fmt.Fprint(c, "hello")
		require.NoError(t, err)
		_, err = io.ReadAll(c)
		require.ErrorIs(t, err, syscall.ECONNRESET)
		_, err = c.Write([]byte("x"))
		require.ErrorIs(t, err, syscall.ECONNRESET)
		got, err := io.ReadAll(server)
		require.NoError(t, err)
		require.Empty(t, got)
	})
}

// Each response has the fault of its own request, also if the server speaks first.
func TestTheRequestsOfAConnectionTakeTurns(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		inner, server := net.Pipe()
		sent := &fault.Injector{Plan: fault.Script(fault.Cut(8), fault.Slow(time.Second), fault.Cut(2))}
		dial := sent.Dial(func(context.Context, string, string) (net.Conn, error) { return inner, nil })
		c, err := dial(t.Context(), "tcp", "shop:1")
		require.NoError(t, err)
		go func() {
			fmt.Fprint(server, "hi")
			for range 3 {
				io.ReadFull(server, make([]byte, 4))
				fmt.Fprint(server, "012")
				fmt.Fprint(server, "345")
			}
		}()
		began, got := time.Now(), make([]byte, 6)
		_, err = io.ReadFull(c, got[:2])
		require.NoError(t, err)
		for range 2 {
			fmt.Fprint(c, "12")
			fmt.Fprint(c, "34")
			_, err = io.ReadFull(c, got)
			require.NoError(t, err)
		}
		require.Equal(t, time.Second, time.Since(began))
		fmt.Fprint(c, "1234")
		n, err := io.ReadFull(c, got)
		require.ErrorIs(t, err, syscall.ECONNRESET)
		require.Equal(t, 2, n)
		sent.Check(t, 3, fault.Waits(0, 0))
		server.Close()
	})
}

func TestACutComesAtOnceAfterTheLastByte(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, server := dialled(t, fault.Cut(3))
		go io.CopyN(server, server, 3)
		_, err := fmt.Fprint(c, "abc")
		require.NoError(t, err)
		got, err := io.ReadAll(c)
		require.ErrorIs(t, err, syscall.ECONNRESET)
		require.Equal(t, "abc", string(got))
	})
}

func TestAConnectionHasTheAddressesOfTheOneInside(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	defer l.Close()
	c, err := new(fault.Injector).Dial(new(net.Dialer).DialContext)(t.Context(), "tcp", l.Addr().String())
	require.NoError(t, err)
	defer c.Close()
	s, err := new(fault.Injector).Listen(l).Accept()
	require.NoError(t, err)
	defer s.Close()
	require.Equal(t, []net.Addr{l.Addr(), c.LocalAddr()}, []net.Addr{c.RemoteAddr(), s.RemoteAddr()})
}

// A client that writes all of its request before it reads.
func TestAStatusComesAlsoWhileTheRequestIsSent(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, server := dialled(t, fault.Status(429).RetryAfter(time.Minute).Body("later"))
		defer c.Close()
		_, err := c.Write(make([]byte, 1<<20))
		require.NoError(t, err)
		resp, err := http.ReadResponse(bufio.NewReader(c), nil)
		require.NoError(t, err)
		got, err := io.ReadAll(resp.Body)
		require.NoError(t, err)
		require.Equal(t, []any{429, "60", "later", true}, []any{resp.StatusCode, resp.Header.Get("Retry-After"), string(got), resp.Close})
		c.Close()
		got, err = io.ReadAll(server)
		require.NoError(t, err)
		require.Empty(t, got)
	})
}

func TestADialThatFailsIsTheCallers(t *testing.T) {
	down := errors.New("down")
	dial := new(fault.Injector).Dial(func(context.Context, string, string) (net.Conn, error) { return nil, down })
	_, err := dial(t.Context(), "tcp", "shop:1")
	require.ErrorIs(t, err, down)
}

// On real sockets the client sees a reset, not an end.
func TestAListenerResetsConnections(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	s := &http.Server{Handler: new(shop)}
	go s.Serve((&fault.Injector{Plan: always(fault.Lost())}).Listen(l))
	defer s.Close()
	conn, err := net.Dial("tcp", l.Addr().String())
	require.NoError(t, err)
	defer conn.Close()
	_, err = io.WriteString(conn, "GET / HTTP/1.1\r\nHost: shop\r\n\r\n")
	require.NoError(t, err)
	_, err = io.ReadAll(conn)
	require.ErrorIs(t, err, syscall.ECONNRESET)
}
