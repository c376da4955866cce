package backoffhttp

import (
	"bytes"
	"io"
	"math"
	"net/http"
	"os"
	"reflect"
	"strings"
	"time"
)

// readUpTo reads r to its end, or until it has read more than limit. whole
// tells which. A negative limit is none.
func readUpTo(r io.Reader, limit int64) (head []byte, whole bool, err error) {
	if limit < 0 || limit == math.MaxInt64 {
		limit = math.MaxInt64 - 1
	}
	head, err = io.ReadAll(io.LimitReader(r, limit+1))
	return head, err == nil && int64(len(head)) <= limit, err
}

// withOwnErrors returns req, which has GetBody, so that an error of its body can be told
// from one of the server. What is in memory does not fail. A file is left to net/http, which
// lets the system send it.
func withOwnErrors(req *http.Request) *http.Request {
	if isInMemory(req.Body) {
		return req
	}
	own, get := req.WithContext(req.Context()), req.GetBody
	own.Body = ownBody{req.Body}
	own.GetBody = func() (io.ReadCloser, error) {
		body, err := get()
		if err != nil {
			return nil, &ownError{err}
		}
		return ownBody{body}, nil
	}
	return own
}

// isInMemory reports whether a body is in memory, or a file. The body that
// [http.NewRequest] makes is in an [io.NopCloser].
func isInMemory(body io.Reader) bool {
	switch body.(type) {
	case nil, *bytes.Reader, *bytes.Buffer, *strings.Reader, *os.File:
		return true
	}
	if v := reflect.ValueOf(body); v.Kind() == reflect.Struct && v.Type().PkgPath() == "io" {
		inner, _ := v.Field(0).Interface().(io.Reader)
		return isInMemory(inner)
	}
	return body == http.NoBody
}

// ownBody is the body of a request, with errors of its own.
type ownBody struct{ io.ReadCloser }

func (b ownBody) Read(p []byte) (int, error) {
	n, err := b.ReadCloser.Read(p)
	if err != nil && err != io.EOF {
		err = &ownError{err}
	}
	return n, err
}

// ownError is an error of a request's own body.
type ownError struct{ error }

func (e *ownError) Unwrap() error { return e.error }

// readCloser is a body whose beginning has been read already.
type readCloser struct {
	io.Reader
	io.Closer
}

// putBack returns a body of which head has been read. If that is the whole of it, the
// body is closed, and holds no connection.
func putBack(body io.ReadCloser, head []byte, whole bool) io.ReadCloser {
	if whole {
		body.Close()
		return io.NopCloser(bytes.NewReader(head))
	}
	return readCloser{io.MultiReader(bytes.NewReader(head), body), body}
}

// The connection of an answer serves the next attempt if the rest of the body
// is no longer than maxDrain and comes within maxDrainTime. Otherwise the
// connection is closed, because a new one costs less.
const (
	maxDrain     = 64 << 10
	maxDrainTime = 100 * time.Millisecond
)

// discard ends an answer that is not returned. A stream of HTTP/2 that is
// closed early is reset, which servers count against the client, and so its
// body is read to the end too, with every release of net/http. Only Go 1.26
// cannot close a body while it waits for the header of gzip.
func (c *call) discard() {
	resp := c.resp
	if resp == nil {
		return
	}
	c.keepCookies()
	c.resp, c.turn.BeforeWait = nil, nil
	defer resp.Body.Close()
	if resp.Body == http.NoBody || resp.ContentLength > maxDrain ||
		closeReadsRest && resp.ProtoMajor == 1 || !closeReadsRest && resp.Uncompressed {
		return
	}
	// If the body stalls, closing it ends the read.
	timer := time.AfterFunc(maxDrainTime, func() { resp.Body.Close() })
	defer timer.Stop()
	io.CopyN(io.Discard, resp.Body, maxDrain+1)
}
