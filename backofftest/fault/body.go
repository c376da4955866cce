package fault

import (
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"hash"
	"io"
	"net/http"
)

// A requestBody is the body of a request. An attempt notes what is read of it.
type requestBody struct {
	io.ReadCloser
	injector *Injector
	attempt  *Attempt
	total    int64 // bytes, if it is above 0
	hash     hash.Hash
}

// watch begins an attempt. It returns a copy of r, to be sent in place of r, whose
// body is recorded while it is read. If GetBody makes another body, that one
// counts from then on.
func (i *Injector) watch(r *http.Request) (*Attempt, *http.Request) {
	none, sent := r.Body == nil || r.Body == http.NoBody, *r
	empty := hex.EncodeToString(sha256.New().Sum(nil))
	key := r.Header.Get("Idempotency-Key")
	a := i.begin(Attempt{Method: cmp.Or(r.Method, http.MethodGet), Path: r.URL.EscapedPath(), Key: key, Sum: empty, Whole: none})
	if none {
		return a, &sent
	}
	last := new(requestBody)
	record := func(rc io.ReadCloser) io.ReadCloser {
		i.mu.Lock()
		defer i.mu.Unlock()
		last.attempt = new(Attempt) // which nobody sees
		last = &requestBody{rc, i, a, r.ContentLength, sha256.New()}
		a.Sum, a.Length, a.Whole = empty, 0, false
		return last
	}
	sent.Body = record(r.Body)
	if r.GetBody != nil {
		sent.GetBody = func() (io.ReadCloser, error) {
			rc, err := r.GetBody()
			if err == nil {
				rc = record(rc)
			}
			return rc, err
		}
	}
	return a, &sent
}

// Read reads from the body, and notes what was read.
func (b *requestBody) Read(p []byte) (int, error) {
	n, err := b.ReadCloser.Read(p)
	b.injector.locked(func() {
		a := b.attempt
		b.hash.Write(p[:n])
		a.Sum = hex.EncodeToString(b.hash.Sum(nil))
		a.Length += int64(n)
		a.Whole = a.Whole || err == io.EOF || b.total > 0 && a.Length == b.total
	})
	return n, err
}

// answered ends an attempt with a response or an error. It records whether the
// body of the response is open, except that of a connection (status 101).
func (i *Injector) answered(a *Attempt, resp *http.Response, err error) (*http.Response, error) {
	if resp == nil {
		return nil, i.end(a, 0, err)
	}
	if _, connection := resp.Body.(io.Writer); resp.Body != nil && !connection {
		i.locked(func() { a.Open = true })
		resp.Body = responseBody{resp.Body, func() { i.locked(func() { a.Open = false }) }}
	}
	return resp, i.end(a, resp.StatusCode, err)
}

// A responseBody is the body of a response. It tells when it is closed.
type responseBody struct {
	io.ReadCloser
	closed func()
}

func (b responseBody) Close() error {
	b.closed()
	return b.ReadCloser.Close()
}
