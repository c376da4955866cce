package backoffhttp

import (
	"bytes"
	"io"
	"net/http"
	"time"
)

// rewindable returns a request whose body can be sent again, or the request as it is
// and false. It is req itself where that has GetBody or no body. Otherwise the body is
// read into memory if it fits into limit, a negative one being none; where it does not
// fit, what was read is put back in front of the rest.
func rewindable(req *http.Request, limit int64) (*http.Request, bool, error) {
	switch {
	case req.Body == nil || req.Body == http.NoBody || req.GetBody != nil:
		return req, true, nil
	case limit == 0 || limit > 0 && req.ContentLength > limit:
		return req, false, nil
	}
	head, whole, err := readUpTo(req.Body, limit)
	if err != nil {
		req.Body.Close()
		return nil, false, err
	}
	clone := req.WithContext(req.Context())
	if !whole {
		clone.Body = readCloser{io.MultiReader(bytes.NewReader(head), req.Body), req.Body}
		return clone, false, nil
	}
	req.Body.Close()
	hold(clone, head)
	return clone, true, nil
}

// hold makes content the body of req.
func hold(req *http.Request, content []byte) {
	req.GetBody = func() (io.ReadCloser, error) {
		return io.NopCloser(bytes.NewReader(content)), nil
	}
	req.Body, _ = req.GetBody()
	if req.Trailer != nil {
		return // which needs the chunks that go with an unknown length
	}
	req.ContentLength = int64(len(content))
	if len(content) == 0 {
		req.Body = http.NoBody
	}
}

// readUpTo reads r to its end, or until there is more than limit; whole tells which. A
// negative limit is none.
func readUpTo(r io.Reader, limit int64) (head []byte, whole bool, err error) {
	if limit < 0 {
		head, err = io.ReadAll(r)
		return head, err == nil, err
	}
	var buffer bytes.Buffer
	n, err := buffer.ReadFrom(io.LimitReader(r, limit+1))
	return buffer.Bytes(), err == nil && n <= limit, err
}

type readCloser struct {
	io.Reader
	io.Closer
}

// A connection is kept for the next attempt if the rest of the answer is no more than
// this, and comes within that time. Else it is closed: a new one costs less.
const (
	maxDrain     = 64 << 10
	maxDrainTime = 100 * time.Millisecond
)

// discard ends an answer that nobody will read.
func discard(resp *http.Response) {
	defer resp.Body.Close()
	if resp.Body == http.NoBody || resp.ContentLength > maxDrain {
		return
	}
	// Closing a body that is being read is how net/http lets go of one that stalls.
	timer := time.AfterFunc(maxDrainTime, func() { resp.Body.Close() })
	defer timer.Stop()
	io.CopyN(io.Discard, resp.Body, maxDrain+1)
}

func closeBody(req *http.Request) {
	if req.Body != nil {
		req.Body.Close()
	}
}
