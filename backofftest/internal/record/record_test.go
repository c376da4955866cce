package record_test

import (
	"bytes"
	"context"
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

	"github.com/gobackoff/backoff/backofftest/internal/record"
)

func sum(s string) string {
	h := sha256.Sum256([]byte(s))
	return hex.EncodeToString(h[:])
}

func post(t *testing.T, body io.Reader) *http.Request {
	r, err := http.NewRequestWithContext(t.Context(), http.MethodPost, "http://shop/a%2Fb?x=1", body)
	require.NoError(t, err)
	r.Header.Set("Idempotency-Key", "k")
	return r
}

func TestARequestIsRecordedAsItIsRead(t *testing.T) {
	r := post(t, strings.NewReader("hello"))
	e, sent := record.Watch(r)
	n := e.Note()
	require.Equal(t, record.Body{Sum: sum("")}, n.Body)
	require.Equal(t, []string{"POST", "/a%2Fb", "k"}, []string{n.Method, n.Path, n.Header.Get("Idempotency-Key")})

	_, err := io.ReadFull(sent.Body, make([]byte, 2))
	require.NoError(t, err)
	require.Equal(t, record.Body{Sum: sum("he"), Length: 2}, e.Note().Body)
	_, err = io.ReadAll(sent.Body)
	require.NoError(t, err)
	require.NoError(t, sent.Body.Close())
	require.Equal(t, record.Body{Sum: sum("hello"), Length: 5, Whole: true, Closed: true}, e.Note().Body)
}

// The caller may use its request again; a RoundTripper must not change it.
func TestTheRequestIsNotChanged(t *testing.T) {
	r := post(t, strings.NewReader("hello"))
	body := r.Body
	e, sent := record.Watch(r)
	require.Equal(t, body, r.Body)
	require.NotEqual(t, body, sent.Body)
	r.Header.Set("Idempotency-Key", "other")
	require.Equal(t, "k", e.Note().Header.Get("Idempotency-Key"))
}

func TestABodyIsWholeWithAllItsBytesAlsoBeforeTheEnd(t *testing.T) {
	e, sent := record.Watch(post(t, strings.NewReader("hello")))
	_, err := io.ReadFull(sent.Body, make([]byte, 5))
	require.NoError(t, err)
	require.True(t, e.Note().Body.Whole)
}

func TestABodyOfUnknownLengthIsWholeAtItsEnd(t *testing.T) {
	e, sent := record.Watch(post(t, iotest.OneByteReader(strings.NewReader("hello"))))
	_, err := io.ReadFull(sent.Body, make([]byte, 5))
	require.NoError(t, err)
	require.False(t, e.Note().Body.Whole)
	_, err = sent.Body.Read(make([]byte, 1))
	require.Equal(t, io.EOF, err)
	require.True(t, e.Note().Body.Whole)
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
	e, sent := record.Watch(post(t, new(ending)))
	for range 2 {
		_, _ = sent.Body.Read(make([]byte, 1))
	}
	require.True(t, e.Note().Body.Whole)
}

func TestABodyThatFailsIsNotWhole(t *testing.T) {
	broken := errors.New("broken")
	e, sent := record.Watch(post(t, io.MultiReader(strings.NewReader("he"), iotest.ErrReader(broken))))
	_, err := io.ReadAll(sent.Body)
	require.ErrorIs(t, err, broken)
	require.Equal(t, record.Body{Sum: sum("he"), Length: 2}, e.Note().Body)
}

func TestNoBodyIsWholeAndClosed(t *testing.T) {
	for _, body := range []io.ReadCloser{nil, http.NoBody} {
		e, sent := record.Watch(&http.Request{URL: new(url.URL), Body: body})
		require.Equal(t, body, sent.Body)
		require.Equal(t, none, e.Note().Body)
		require.Equal(t, "GET", e.Note().Method)
	}
}

// A transport of net/http sends a request again if a kept connection turns out to be closed.
func TestTheBodyThatWasSentLastIsTheOneThatCounts(t *testing.T) {
	e, sent := record.Watch(post(t, strings.NewReader("hello")))
	_, err := io.ReadFull(sent.Body, make([]byte, 3))
	require.NoError(t, err)
	again, err := sent.GetBody()
	require.NoError(t, err)
	require.NoError(t, sent.Body.Close()) // the first one
	require.Equal(t, record.Body{Sum: sum("")}, e.Note().Body)
	_, err = io.ReadAll(again)
	require.NoError(t, err)
	require.Equal(t, record.Body{Sum: sum("hello"), Length: 5, Whole: true}, e.Note().Body)
}

func TestABodyThatCannotBeMadeAgainKeepsTheRecord(t *testing.T) {
	r := post(t, strings.NewReader("hello"))
	broken := errors.New("broken")
	r.GetBody = func() (io.ReadCloser, error) { return nil, broken }
	e, sent := record.Watch(r)
	_, err := sent.GetBody()
	require.ErrorIs(t, err, broken)
	_, err = io.ReadAll(sent.Body)
	require.NoError(t, err)
	require.True(t, e.Note().Body.Whole)
	r.GetBody = nil
	_, sent = record.Watch(r)
	require.Nil(t, sent.GetBody)
}

func TestAResponseIsRecordedUntilItIsClosed(t *testing.T) {
	e, _ := record.Watch(post(t, nil))
	require.Equal(t, none, e.Note().Response)
	w := httptest.NewRecorder()
	w.WriteHeader(http.StatusTeapot)
	_, _ = w.WriteString("tea")
	resp := w.Result()
	e.Answer(resp, nil)
	require.Equal(t, http.StatusTeapot, e.Note().Status)
	_, err := io.ReadAll(resp.Body)
	require.NoError(t, err)
	require.Equal(t, record.Body{Sum: sum("tea"), Length: 3, Whole: true}, e.Note().Response)
	require.NoError(t, resp.Body.Close())
	require.True(t, e.Note().Response.Closed)
}

// none is a body that does not exist.
var none = record.Body{Sum: sum(""), Whole: true, Closed: true}

func TestWhereNoResponseIsNothingIsOpen(t *testing.T) {
	e, _ := record.Watch(post(t, nil))
	e.Answer(nil, context.Canceled)
	require.Zero(t, e.Note().Status)
	e.Answer(&http.Response{StatusCode: 204}, nil) // of a transport that gives no body
	require.Equal(t, none, e.Note().Response)
}

type pipe struct{ bytes.Buffer }

func (*pipe) Close() error { return nil }

func TestAConnectionIsNotRecorded(t *testing.T) {
	conn := new(pipe)
	e, _ := record.Watch(post(t, nil))
	resp := &http.Response{StatusCode: http.StatusSwitchingProtocols, Body: conn}
	e.Answer(resp, nil)
	require.Same(t, conn, resp.Body)
	require.Equal(t, none, e.Note().Response)
}

// A transport may still read the request when the response is there.
func TestAnExchangeIsSafeForConcurrentUse(t *testing.T) {
	e, sent := record.Watch(post(t, strings.NewReader(strings.Repeat("x", 1000))))
	var all sync.WaitGroup
	all.Go(func() { _, _ = io.Copy(io.Discard, iotest.OneByteReader(sent.Body)) })
	all.Go(func() { e.Answer(httptest.NewRecorder().Result(), nil) })
	all.Go(func() { _, _ = sent.GetBody() })
	for range 100 {
		e.Note()
	}
	all.Wait()
}
