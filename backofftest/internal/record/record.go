// Package record notes what a program does with one HTTP request and with the
// response to it: what was read of their bodies, and whether these were closed.
package record

import (
	"io"
	"net/http"
	"sync"
	"time"
)

// An Exchange is one request and the response to it, while they last. [Watch]
// makes one. It is safe for concurrent use.
type Exchange struct {
	mu                sync.Mutex
	note              Note     // without bodies
	request, response *watched // nil if there is none
}

// A Note is what an [Exchange] has seen so far.
type Note struct {
	Began    time.Time   // when Watch was called
	Method   string      // GET, if the request has none
	Path     string      // of the URL, escaped, without a query
	Header   http.Header // of the request, a copy; nil if it has none
	Body     Body        // of the request
	Ended    time.Time   // when Answer was called; zero before
	Status   int         // of the response; 0 if there is none
	Err      error       // instead of a response
	Response Body        // of the response; zero if there is none
}

// Watch begins to record a request. It returns a copy of r, to be sent instead
// of r, whose body is recorded while it is read. If its GetBody makes another
// body, that is recorded in place of the last one.
//
// A request without a body (nil, or http.NoBody) gets none. Its Body counts as
// whole and closed.
func Watch(r *http.Request) (*Exchange, *http.Request) {
	e := &Exchange{note: Note{Began: time.Now(), Method: r.Method, Header: r.Header.Clone()}}
	if r.Method == "" {
		e.note.Method = http.MethodGet
	}
	if r.URL != nil {
		e.note.Path = r.URL.EscapedPath()
	}
	sent := *r
	if r.Body == nil || r.Body == http.NoBody {
		return e, &sent
	}
	e.request = watch(r.Body, r.ContentLength)
	sent.Body = e.request
	if r.GetBody != nil {
		sent.GetBody = func() (io.ReadCloser, error) { return e.again(r) }
	}
	return e, &sent
}

// again makes another body, and records that.
func (e *Exchange) again(r *http.Request) (io.ReadCloser, error) {
	rc, err := r.GetBody()
	if err != nil {
		return nil, err
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	e.request = watch(rc, r.ContentLength)
	return e.request, nil
}

// Answer records what came of the request: a response, whose body it replaces
// by one that is recorded, or an error.
func (e *Exchange) Answer(resp *http.Response, err error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.note.Ended, e.note.Err = time.Now(), err
	if resp == nil {
		return
	}
	e.note.Status = resp.StatusCode
	if resp.Body == nil {
		return
	}
	e.response = watch(resp.Body, resp.ContentLength)
	if w, ok := resp.Body.(io.Writer); ok {
		resp.Body = connection{e.response, w}
	} else {
		resp.Body = e.response
	}
}

// Note returns what has been seen so far. Its Header is shared: do not change it.
func (e *Exchange) Note() Note {
	e.mu.Lock()
	defer e.mu.Unlock()
	n := e.note
	n.Body = none
	if e.request != nil {
		n.Body = e.request.body()
	}
	if e.response != nil {
		n.Response = e.response.body()
	}
	return n
}
