// Package record notes what a program does with one HTTP request and with the
// response to it: what was read of their bodies, and whether these were closed.
package record

import (
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"hash"
	"io"
	"net/http"
	"sync"
)

// An Exchange is one request and the response to it, while they last. [Watch]
// makes one. It is safe for concurrent use.
type Exchange struct {
	mu                sync.Mutex
	note              Note // without bodies
	request, response *watched
}

// A Note is what an [Exchange] has seen so far.
type Note struct {
	Method   string      // GET, if the request has none
	Path     string      // of the URL, escaped, without a query
	Header   http.Header // of the request, a copy; nil if it has none
	Body     Body        // of the request
	Status   int         // of the response; 0 if there is none
	Response Body        // of the response
}

// A Body is what was done with a body. A body that does not exist, and that of a
// connection (status 101), which is not recorded, count as whole and closed.
type Body struct {
	Sum    string // SHA-256 of what was read, in hexadecimal
	Length int64  // bytes that were read
	Whole  bool   // it was read to its end
	Closed bool
}

var none = &watched{seen: Body{Sum: hex.EncodeToString(sha256.New().Sum(nil)), Whole: true, Closed: true}}

// Watch begins to record a request. It returns a copy of r, to be sent instead
// of r, whose body is recorded while it is read. If its GetBody makes another
// body, that is recorded in place of the last one. A request without a body (nil,
// or http.NoBody) gets none.
func Watch(r *http.Request) (*Exchange, *http.Request) {
	e := &Exchange{request: none, response: none}
	e.note = Note{Method: cmp.Or(r.Method, http.MethodGet), Path: r.URL.EscapedPath(), Header: r.Header.Clone()}
	sent := *r
	if r.Body == nil || r.Body == http.NoBody {
		return e, &sent
	}
	sent.Body = e.watch(&e.request, r.Body, r.ContentLength)
	if r.GetBody != nil {
		sent.GetBody = func() (io.ReadCloser, error) {
			rc, err := r.GetBody()
			if err == nil {
				rc = e.watch(&e.request, rc, r.ContentLength)
			}
			return rc, err
		}
	}
	return e, &sent
}

// Answer records what came of the request: a response, whose body it replaces
// by one that is recorded, or an error.
func (e *Exchange) Answer(resp *http.Response, _ error) {
	if resp == nil {
		return
	}
	if _, connection := resp.Body.(io.Writer); resp.Body != nil && !connection {
		resp.Body = e.watch(&e.response, resp.Body, resp.ContentLength)
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	e.note.Status = resp.StatusCode
}

// Note returns what has been seen so far. Its Header is shared: do not change it.
func (e *Exchange) Note() Note {
	e.mu.Lock()
	defer e.mu.Unlock()
	n := e.note
	n.Body, n.Response = e.request.seen, e.response.seen
	return n
}

// watched is a body that is recorded.
type watched struct {
	io.ReadCloser
	mu    *sync.Mutex // of the Exchange, for what follows
	total int64       // bytes, if it is above 0
	hash  hash.Hash
	seen  Body
}

// watch returns a body that is recorded in e.
func (e *Exchange) watch(in **watched, rc io.ReadCloser, total int64) io.ReadCloser {
	e.mu.Lock()
	defer e.mu.Unlock()
	*in = &watched{ReadCloser: rc, mu: &e.mu, total: total, hash: sha256.New(), seen: Body{Sum: none.seen.Sum}}
	return *in
}

// Read reads from the body, and notes what was read.
func (w *watched) Read(p []byte) (int, error) {
	n, err := w.ReadCloser.Read(p)
	w.mu.Lock()
	defer w.mu.Unlock()
	w.hash.Write(p[:n])
	w.seen.Sum = hex.EncodeToString(w.hash.Sum(nil))
	w.seen.Length += int64(n)
	w.seen.Whole = w.seen.Whole || err == io.EOF || w.total > 0 && w.seen.Length == w.total
	return n, err
}

// Close closes the body, and notes it.
func (w *watched) Close() error {
	w.mu.Lock()
	w.seen.Closed = true
	w.mu.Unlock()
	return w.ReadCloser.Close()
}
