package idempotency

import (
	"fmt"
	"net/http"
	"slices"
	"strings"
	"time"
)

// recorder holds a response back until it is kept. If the handler flushes, or
// writes more than may be kept, the recorder streams the response instead, and
// keeps what fits.
type recorder struct {
	w      http.ResponseWriter
	outer  http.Header // the fields that were set around the handler
	header http.Header // the handler's header
	left   int64       // bytes that may still be kept; negative: no limit

	record    Record
	streaming bool // w has the status, and gets the body as it comes
}

// newRecorder returns a recorder that keeps up to maxSize bytes.
func newRecorder(w http.ResponseWriter, maxSize int64) *recorder {
	r := &recorder{w: w, outer: w.Header().Clone(), header: make(http.Header), left: maxSize}
	copyHeader(r.header, r.outer)
	return r
}

// copyHeader copies all fields of src, with their values, to dst.
func copyHeader(dst, src http.Header) {
	for name, values := range src {
		dst[name] = slices.Clone(values)
	}
}

// Header implements [http.ResponseWriter].
func (r *recorder) Header() http.Header { return r.header }

// WriteHeader implements [http.ResponseWriter].
func (r *recorder) WriteHeader(status int) {
	switch {
	case status < 100 || status > 999: // as net/http does
		panic(fmt.Sprintf("idempotency: invalid WriteHeader code %d", status))
	case r.record.Status != 0:
		return
	case status < 200 && status != http.StatusSwitchingProtocols:
		r.passHeader()
		r.w.WriteHeader(status)
		return
	}
	markFinal(r.header, status)
	r.passHeader()
	r.record = Record{Status: status, Header: r.ownFields()}
	r.account(r.record.size())
}

// passHeader copies the handler's header to w. As in net/http, changes that the
// handler makes to its header after WriteHeader have no effect.
func (r *recorder) passHeader() {
	clear(r.w.Header())
	copyHeader(r.w.Header(), r.header)
}

// ownFields returns the fields that the handler set.
func (r *recorder) ownFields() http.Header {
	own := make(http.Header)
	for name, values := range r.header {
		if !slices.Equal(values, r.outer[name]) && !hopByHop[name] && !strings.HasPrefix(name, http.TrailerPrefix) {
			own[name] = slices.Clone(values)
		}
	}
	return own
}

// hopByHop are the fields that belong to a connection. Source: RFC 9110, 7.6.1.
var hopByHop = map[string]bool{
	"Connection": true, "Keep-Alive": true, "Proxy-Connection": true, "Te": true,
	"Trailer": true, "Transfer-Encoding": true, "Upgrade": true,
}

// account takes n bytes from those that may be kept. If there are not enough
// left, it gives the response up, and the recorder streams from here on.
func (r *recorder) account(n int64) {
	switch {
	case r.left < 0 || r.record.Omitted:
	case n <= r.left:
		r.left -= n
	default:
		r.send()
		r.record = r.record.omit()
	}
}

// Write implements [http.ResponseWriter].
func (r *recorder) Write(p []byte) (int, error) {
	r.ensureStatus()
	if s := r.record.Status; s == http.StatusNoContent || s == http.StatusNotModified {
		return 0, http.ErrBodyNotAllowed
	}
	r.account(int64(len(p)))
	if !r.record.Omitted {
		r.record.Body = append(r.record.Body, p...)
	}
	if r.streaming {
		return r.w.Write(p)
	}
	return len(p), nil
}

// ensureStatus sets the status to 200 if the handler has set none.
func (r *recorder) ensureStatus() {
	if r.record.Status == 0 {
		r.WriteHeader(http.StatusOK)
	}
}

// Flush implements [http.Flusher].
func (r *recorder) Flush() { r.FlushError() }

// FlushError is Flush for [http.ResponseController].
func (r *recorder) FlushError() error {
	r.ensureStatus()
	r.send()
	return http.NewResponseController(r.w).Flush()
}

// SetReadDeadline is for [http.ResponseController].
func (r *recorder) SetReadDeadline(t time.Time) error {
	return http.NewResponseController(r.w).SetReadDeadline(t)
}

// SetWriteDeadline is for [http.ResponseController].
func (r *recorder) SetWriteDeadline(t time.Time) error {
	return http.NewResponseController(r.w).SetWriteDeadline(t)
}

// finish passes the trailers on, and returns the record of the whole response.
func (r *recorder) finish() Record {
	r.ensureStatus()
	declared := r.w.Header()["Trailer"]
	for name, values := range r.header {
		if strings.HasPrefix(name, http.TrailerPrefix) || slices.ContainsFunc(declared, listing(name)) {
			r.w.Header()[name] = slices.Clone(values)
		}
	}
	return r.record
}

// listing returns a function that reports whether a value of the Trailer header
// lists the field name.
func listing(name string) func(string) bool {
	return func(value string) bool {
		for field := range strings.SplitSeq(value, ",") {
			if http.CanonicalHeaderKey(strings.TrimSpace(field)) == name {
				return true
			}
		}
		return false
	}
}

// send sends what was held back.
func (r *recorder) send() {
	if r.streaming {
		return
	}
	r.streaming = true
	r.w.WriteHeader(r.record.Status)
	if len(r.record.Body) > 0 {
		r.w.Write(r.record.Body)
	}
}
