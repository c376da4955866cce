package recipes

import (
	"bufio"
	"bytes"
	"errors"
	"io"
	"net/http"
	"strings"
	"time"

	"github.com/gobackoff/backoff"
	"github.com/gobackoff/backoff/backoffhttp"
)

var errFirstEvent = backoff.OfClass(errors.New("the stream begins with an error"), backoff.ClassRetryable)

// firstEvent is the Inspect of a Transport. It returns an error if a stream begins with one, in one of
// two forms, and leaves the first event in the body.
func firstEvent(resp *http.Response) error {
	if !strings.HasPrefix(resp.Header.Get("Content-Type"), "text/event-stream") {
		return backoffhttp.Check(resp)
	}
	stream := bufio.NewReader(resp.Body)
	start, err := stream.Peek(1)
	for err == nil && !begins(start) {
		start, err = stream.Peek(len(start) + 1) // not beyond that line: more may come much later
	}
	resp.Body = struct {
		io.Reader
		io.Closer
	}{stream, resp.Body} // the caller reads it again
	switch start = event(start); {
	case bytes.HasPrefix(start, []byte("event: error")), bytes.HasPrefix(start, []byte(`data: {"error"`)):
		return errFirstEvent
	case err == io.EOF && len(start) > 0, err == bufio.ErrBufferFull:
		return nil // the whole stream is that short, or begins with 4 KiB of comments
	}
	return err // of a stream that broke off before its first event
}

// begins reports whether a start of a stream has enough of its first event.
func begins(start []byte) bool {
	start = event(start)
	return len(start) >= len(`data: {"error"`) || bytes.HasSuffix(start, []byte("\n"))
}

// event returns the first event of a stream, without what is before it: comments, such as ": ping",
// and empty lines.
func event(start []byte) []byte {
	for {
		line, rest, whole := bytes.Cut(start, []byte("\n"))
		if !whole || len(bytes.TrimRight(line, "\r")) > 0 && line[0] != ':' {
			return start
		}
		start = rest
	}
}

// eachLine calls f with each line of a stream, and stop if none comes for a pause: stop must end the
// context of the request, which ends the stream.
func eachLine(stream io.Reader, pause time.Duration, stop func(), f func(line string)) error {
	timer := time.AfterFunc(pause, stop)
	defer timer.Stop()
	lines := bufio.NewScanner(stream)
	lines.Buffer(nil, 1<<20) // the longest line; by default 64 KiB
	for lines.Scan() {
		timer.Reset(pause)
		f(lines.Text())
	}
	return lines.Err()
}
