package backoffhttp

import (
	"fmt"
	"net/http"
	"slices"
	"strings"
	"time"
)

// recorder holds a response back until it is kept, unless the handler flushes or writes
// more than fits; then it streams, and keeps what fits.
type recorder struct {
	w      http.ResponseWriter
	outer  http.Header // what was set around the handler
	header http.Header // the handler's
	left   int64       // bytes that may still be kept; negative if there is no limit

	record    Record
	streaming bool // w got the status, and gets the body as it comes
}

func newRecorder(w http.ResponseWriter, most int64) *recorder {
	a := &recorder{w: w, outer: w.Header().Clone(), header: make(http.Header), left: most}
	copyHeader(a.header, a.outer)
	return a
}

// copyHeader copies all fields of src to dst, and their values.
func copyHeader(dst, src http.Header) {
	for name, values := range src {
		dst[name] = slices.Clone(values)
	}
}

// Header implements [http.ResponseWriter].
func (a *recorder) Header() http.Header { return a.header }

// WriteHeader implements [http.ResponseWriter].
func (a *recorder) WriteHeader(status int) {
	switch {
	case status < 100 || status > 999: // as net/http does, but while the handler runs
		panic(fmt.Sprintf("backoffhttp: invalid WriteHeader code %d", status))
	case a.record.Status != 0:
		return
	case status < 200 && status != http.StatusSwitchingProtocols:
		a.expose()
		a.w.WriteHeader(status)
		return
	}
	insist(a.header, status)
	a.expose()
	a.record = Record{Status: status, Header: a.own()}
	a.take(a.record.size())
}

// expose makes the handler's header that of w. What the handler changes afterwards is of no
// consequence, as net/http has it.
func (a *recorder) expose() {
	clear(a.w.Header())
	copyHeader(a.w.Header(), a.header)
}

// own returns what the handler put into the header, without what was there before.
func (a *recorder) own() http.Header {
	own := make(http.Header)
	for name, values := range a.header {
		if !slices.Equal(values, a.outer[name]) && !hopByHop[name] && !strings.HasPrefix(name, http.TrailerPrefix) {
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

// take keeps n more bytes, or nothing at all any more.
func (a *recorder) take(n int64) {
	switch {
	case a.left < 0 || a.record.Omitted:
	case n <= a.left:
		a.left -= n
	default:
		a.commit()
		a.record = a.record.omit()
	}
}

// Write implements [http.ResponseWriter].
func (a *recorder) Write(p []byte) (int, error) {
	if a.record.Status == 0 {
		a.WriteHeader(http.StatusOK)
	}
	if s := a.record.Status; s == http.StatusNoContent || s == http.StatusNotModified {
		return 0, http.ErrBodyNotAllowed
	}
	a.take(int64(len(p)))
	if !a.record.Omitted {
		a.record.Body = append(a.record.Body, p...)
	}
	if a.streaming {
		return a.w.Write(p)
	}
	return len(p), nil
}

// Flush implements [http.Flusher].
func (a *recorder) Flush() { a.FlushError() }

// FlushError is Flush for [http.ResponseController].
func (a *recorder) FlushError() error {
	if a.record.Status == 0 {
		a.WriteHeader(http.StatusOK)
	}
	a.commit()
	return http.NewResponseController(a.w).Flush()
}

// SetReadDeadline is for [http.ResponseController].
func (a *recorder) SetReadDeadline(t time.Time) error {
	return http.NewResponseController(a.w).SetReadDeadline(t)
}

// SetWriteDeadline is for [http.ResponseController].
func (a *recorder) SetWriteDeadline(t time.Time) error {
	return http.NewResponseController(a.w).SetWriteDeadline(t)
}

// finish returns what is to be kept of a response that is whole.
func (a *recorder) finish() Record {
	if a.record.Status == 0 {
		a.WriteHeader(http.StatusOK)
	}
	declared := a.w.Header()["Trailer"]
	for name, values := range a.header {
		if strings.HasPrefix(name, http.TrailerPrefix) || slices.ContainsFunc(declared, lists(name)) {
			a.w.Header()[name] = slices.Clone(values)
		}
	}
	return a.record
}

// lists returns whether a value of the Trailer header names a field.
func lists(name string) func(string) bool {
	return func(value string) bool {
		for field := range strings.SplitSeq(value, ",") {
			if http.CanonicalHeaderKey(strings.TrimSpace(field)) == name {
				return true
			}
		}
		return false
	}
}

// commit sends what was held back.
func (a *recorder) commit() {
	if a.streaming {
		return
	}
	a.streaming = true
	a.w.WriteHeader(a.record.Status)
	if len(a.record.Body) > 0 {
		a.w.Write(a.record.Body)
	}
}
