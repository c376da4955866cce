package backoffhttp

import (
	"bytes"
	"io"
	"math"
	"net/http"
	"time"
)

// readUpTo reads r to its end, or until it has read more than limit. whole
// tells which. A negative limit is none.
func readUpTo(r io.Reader, limit int64) (head []byte, whole bool, err error) {
	if limit < 0 || limit == math.MaxInt64 {
		head, err = io.ReadAll(r)
		return head, err == nil, err
	}
	var buffer bytes.Buffer
	n, err := buffer.ReadFrom(io.LimitReader(r, limit+1))
	return buffer.Bytes(), err == nil && n <= limit, err
}

// readCloser is a body whose beginning has been read already.
type readCloser struct {
	io.Reader
	io.Closer
}

// The connection of an answer serves the next attempt if the rest of the body
// is no longer than maxDrain and comes within maxDrainTime. Otherwise the
// connection is closed, because a new one costs less.
const (
	maxDrain     = 64 << 10
	maxDrainTime = 100 * time.Millisecond
)

// discard closes a response that is not returned. A stream of HTTP/2 that is
// closed early is reset, which servers count against the client, and so its
// body is read to the end too, with every release of net/http. Only Go 1.26
// cannot close a body while it waits for the header of gzip.
func discard(resp *http.Response) {
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

// closeBody closes the body of a request that is not sent.
func closeBody(req *http.Request) {
	if req.Body != nil {
		req.Body.Close()
	}
}
