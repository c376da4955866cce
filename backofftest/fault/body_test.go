package fault_test

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"sync"
	"testing"
	"testing/iotest"

	"github.com/stretchr/testify/require"

	"github.com/gobackoff/backoff/backofftest/fault"
)

// A seen is what is recorded of the body of a request.
type seen struct {
	sum    string
	length int64
	whole  bool
}

func sum(s string) string {
	h := sha256.Sum256([]byte(s))
	return hex.EncodeToString(h[:])
}

// A base is a transport that keeps the last request, and has one response.
type base struct {
	sent *http.Request
	resp *http.Response
}

func (b *base) RoundTrip(r *http.Request) (*http.Response, error) {
	b.sent = r
	return b.resp, nil
}

func post(t *testing.T, body io.Reader) *http.Request {
	r, err := http.NewRequestWithContext(t.Context(), http.MethodPost, "http://shop/a%2Fb?x=1", body)
	require.NoError(t, err)
	r.Header.Set("Idempotency-Key", "k")
	return r
}

// watched sends a request. It returns the one that the base got, whose body nobody
// has read yet, and a function that tells what is recorded.
func watched(t *testing.T, r *http.Request) (*http.Request, func() fault.Attempt) {
	sent, b := new(fault.Injector), &base{resp: &http.Response{StatusCode: http.StatusNoContent}}
	_, err := sent.Transport(b).RoundTrip(r)
	require.NoError(t, err)
	return b.sent, func() fault.Attempt { return sent.Attempts()[0] }
}

func requireSeen(t *testing.T, want seen, a fault.Attempt) {
	t.Helper()
	require.Equal(t, want, seen{a.Sum, a.Length, a.Whole})
}

func TestARequestIsRecordedAsItIsRead(t *testing.T) {
	sent, attempt := watched(t, post(t, strings.NewReader("hello")))
	a := attempt()
	requireSeen(t, seen{sum: sum("")}, a)
	require.Equal(t, []string{"POST", "/a%2Fb", "k"}, []string{a.Method, a.Path, a.Key})

	_, err := io.ReadFull(sent.Body, make([]byte, 2))
	require.NoError(t, err)
	requireSeen(t, seen{sum: sum("he"), length: 2}, attempt())
	_, err = io.ReadAll(sent.Body)
	require.NoError(t, err)
	requireSeen(t, seen{sum("hello"), 5, true}, attempt())
}

// The caller may use its request again; a RoundTripper must not change it.
func TestTheRequestIsNotChanged(t *testing.T) {
	r := post(t, strings.NewReader("hello"))
	body := r.Body
	sent, attempt := watched(t, r)
	require.Equal(t, body, r.Body)
	require.NotEqual(t, body, sent.Body)
	r.Header.Set("Idempotency-Key", "other")
	require.Equal(t, "k", attempt().Key)
}

func TestABodyIsWholeWithAllItsBytesAlsoBeforeTheEnd(t *testing.T) {
	sent, attempt := watched(t, post(t, strings.NewReader("hello")))
	_, err := io.ReadFull(sent.Body, make([]byte, 5))
	require.NoError(t, err)
	require.True(t, attempt().Whole)
}

func TestABodyOfUnknownLengthIsWholeAtItsEnd(t *testing.T) {
	sent, attempt := watched(t, post(t, iotest.OneByteReader(strings.NewReader("hello"))))
	_, err := sent.Body.Read(nil)
	require.NoError(t, err)
	require.False(t, attempt().Whole)
	_, err = io.ReadFull(sent.Body, make([]byte, 5))
	require.NoError(t, err)
	require.False(t, attempt().Whole)
	_, err = sent.Body.Read(make([]byte, 1))
	require.Equal(t, io.EOF, err)
	require.True(t, attempt().Whole)
}

// ending is a body that ends, and then fails.
type ending struct{ reads int }

func (e *ending) Read([]byte) (int, error) {
	if e.reads++; e.reads == 1 {
		return 0, io.EOF
	}
	return 0, errors.New("closed")
}

func TestABodyStaysWholeIfItIsReadAgain(t *testing.T) {
	sent, attempt := watched(t, post(t, new(ending)))
	for range 2 {
		_, _ = sent.Body.Read(make([]byte, 1))
	}
	require.True(t, attempt().Whole)
}

func TestABodyThatFailsIsNotWhole(t *testing.T) {
	broken := errors.New("broken")
	sent, attempt := watched(t, post(t, io.MultiReader(strings.NewReader("he"), iotest.ErrReader(broken))))
	_, err := io.ReadAll(sent.Body)
	require.ErrorIs(t, err, broken)
	requireSeen(t, seen{sum: sum("he"), length: 2}, attempt())
}

func TestNoBodyIsWhole(t *testing.T) {
	for _, body := range []io.ReadCloser{nil, http.NoBody} {
		sent, attempt := watched(t, &http.Request{URL: new(url.URL), Body: body})
		require.Equal(t, body, sent.Body)
		requireSeen(t, seen{sum(""), 0, true}, attempt())
		require.Equal(t, "GET", attempt().Method)
	}
}

// A transport of net/http sends a request again if a kept connection turns out to be closed.
func TestTheBodyThatWasSentLastIsTheOneThatCounts(t *testing.T) {
	sent, attempt := watched(t, post(t, strings.NewReader("hello")))
	_, err := io.ReadFull(sent.Body, make([]byte, 3))
	require.NoError(t, err)
	again, err := sent.GetBody()
	require.NoError(t, err)
	_, err = io.ReadAll(sent.Body) // the first one
	require.NoError(t, err)
	requireSeen(t, seen{sum: sum("")}, attempt())
	_, err = io.ReadAll(again)
	require.NoError(t, err)
	requireSeen(t, seen{sum("hello"), 5, true}, attempt())
}

func TestABodyThatCannotBeMadeAgainKeepsTheRecord(t *testing.T) {
	r := post(t, strings.NewReader("hello"))
	broken := errors.New("broken")
	r.GetBody = func() (io.ReadCloser, error) { return nil, broken }
	sent, attempt := watched(t, r)
	_, err := sent.GetBody()
	require.ErrorIs(t, err, broken)
	_, err = io.ReadAll(sent.Body)
	require.NoError(t, err)
	require.True(t, attempt().Whole)
	r.GetBody = nil
	sent, _ = watched(t, r)
	require.Nil(t, sent.GetBody)
}

func TestAResponseIsOpenUntilItIsClosed(t *testing.T) {
	w := httptest.NewRecorder()
	w.WriteHeader(http.StatusTeapot)
	_, _ = w.WriteString("tea")
	sent := new(fault.Injector)
	resp, err := sent.Transport(&base{resp: w.Result()}).RoundTrip(post(t, nil))
	require.NoError(t, err)
	require.Equal(t, http.StatusTeapot, sent.Attempts()[0].Status)
	got, err := io.ReadAll(resp.Body)
	require.NoError(t, err)
	require.Equal(t, "tea", string(got))
	require.True(t, sent.Attempts()[0].Open)
	require.NoError(t, resp.Body.Close())
	require.False(t, sent.Attempts()[0].Open)
}

func TestWhereNoResponseIsNothingIsOpen(t *testing.T) {
	_, attempt := watched(t, post(t, nil)) // its transport gives no body
	require.False(t, attempt().Open)
	sent := &fault.Injector{Plan: always(fault.Lost())}
	_, err := sent.Transport(&base{resp: httptest.NewRecorder().Result()}).RoundTrip(post(t, nil))
	require.Error(t, err)
	require.Zero(t, sent.Attempts()[0].Status)
	require.False(t, sent.Attempts()[0].Open)
}

type pipe struct{ bytes.Buffer }

func (*pipe) Close() error { return nil }

func TestAConnectionIsNotRecorded(t *testing.T) {
	sent, conn := new(fault.Injector), new(pipe)
	resp, err := sent.Transport(&base{resp: &http.Response{StatusCode: http.StatusSwitchingProtocols, Body: conn}}).RoundTrip(post(t, nil))
	require.NoError(t, err)
	require.Same(t, conn, resp.Body)
	require.False(t, sent.Attempts()[0].Open)
}

// A transport may still read the request when the response is there.
func TestARecordIsSafeForConcurrentUse(t *testing.T) {
	sent, attempt := watched(t, post(t, strings.NewReader(strings.Repeat("x", 1000))))
	var all sync.WaitGroup
	all.Go(func() { _, _ = io.Copy(io.Discard, iotest.OneByteReader(sent.Body)) })
	all.Go(func() { _, _ = sent.GetBody() })
	for range 100 {
		attempt()
	}
	all.Wait()
}
