package backoffhttp_test

// What a server, or a proxy on the way, can answer when it is asked for the
// rest of a body.

import (
	"errors"
	"io"
	"net/http"
	"strings"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/gobackoff/backoff"
	"github.com/gobackoff/backoff/backoffhttp"
)

const digits = "0123456789"

// brokenOff is an answer with header whose body breaks off after good. Its
// length is not known.
func brokenOff(code int, good string, header ...string) step {
	return func(req *http.Request) (*http.Response, error) {
		resp, err := answer(code, append(header, "Etag", `"v1"`)...)(req)
		resp.ContentLength = -1
		resp.Body = io.NopCloser(io.MultiReader(strings.NewReader(good), failingReader{syscall.ECONNRESET}))
		return resp, err
	}
}

// unsized is an answer whose length is not known.
func unsized(code int, body string, header ...string) step {
	return func(req *http.Request) (*http.Response, error) {
		resp, err := answerBody(code, body, header...)(req)
		resp.ContentLength = -1
		return resp, err
	}
}

// resumed reads the body of an answer that is resumed.
func resumed(t *testing.T, steps ...step) (body string, w *wire, err error) {
	w = newWire(steps...)
	tr := over(w)
	tr.Resume = true
	resp := getRoot(t, tr)
	got, err := io.ReadAll(resp.Body)
	require.NoError(t, resp.Body.Close())
	require.Zero(t, w.open())
	return string(got), w, err
}

// A server may send less than it is asked for (RFC 9110, 15.3.7). The body does
// not end there.
func TestABodyWithoutALengthIsNeverCutShort(t *testing.T) {
	const v1 = `"v1"`
	for name, c := range map[string]struct {
		steps []step
		asked []string
	}{
		"parts of a known whole": {
			[]step{unsized(206, "456", "Content-Range", "bytes 4-6/10"), unsized(206, "789", "Content-Range", "bytes 7-9/10")},
			[]string{"bytes=4-", "bytes=7-9"},
		},
		"parts of an unknown whole": {
			[]step{unsized(206, "456", "Content-Range", "bytes 4-6/*"), unsized(206, "789", "Content-Range", "bytes 7-9/*"), answer(416, "Content-Range", "bytes */10")},
			[]string{"bytes=4-", "bytes=7-", "bytes=10-"},
		},
		"a part shorter than it says": {
			[]step{unsized(206, "45", "Content-Range", "bytes 4-9/10"), unsized(206, "6789", "Content-Range", "bytes 6-9/10")},
			[]string{"bytes=4-", "bytes=6-9"},
		},
		"the whole again, cut short": {
			[]step{unsized(200, digits[:2], "Etag", v1), unsized(200, digits, "Etag", v1)},
			[]string{"bytes=4-", "bytes=4-"},
		},
		"the whole again, with a length, broken off": {
			[]step{brokenOff(206, "45", "Content-Range", "bytes 4-9/10"), answerBody(200, digits, "Etag", v1)},
			[]string{"bytes=4-", "bytes=6-9"},
		},
		"a part that breaks off after its last byte": {
			[]step{brokenOff(206, "456789", "Content-Range", "bytes 4-9/10")},
			[]string{"bytes=4-"},
		},
		"a unit in upper case": {
			[]step{unsized(206, "456789", "Content-Range", "Bytes 4-9/10")},
			[]string{"bytes=4-"},
		},
	} {
		bubble(t, name, func(t *testing.T) {
			got, w, err := resumed(t, append([]step{brokenOff(200, "0123")}, c.steps...)...)
			require.NoError(t, err)
			require.Equal(t, digits, got)
			var asked []string
			for i := 1; i < w.requests(); i++ {
				asked = append(asked, w.request(i).header.Get("Range"))
			}
			require.Equal(t, c.asked, asked)
		})
	}
}

// The connection broke after the last byte, but before the end of the body.
func TestABodyThatIsCompleteEndsWhereNothingIsLeft(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		got, _, err := resumed(t, brokenOff(200, digits), answer(416, "Content-Range", "bytes */10"))
		require.NoError(t, err)
		require.Equal(t, digits, got)
	})
	for name, header := range map[string][]string{
		"it is longer": {"Content-Range", "bytes */11"}, "it is shorter": {"Content-Range", "bytes */9"},
		"it does not say": nil, "nonsense": {"Content-Range", "bytes */*"},
	} {
		synctest.Test(t, func(t *testing.T) {
			got, _, err := resumed(t, brokenOff(200, digits), answer(416, header...))
			require.ErrorIs(t, err, backoffhttp.ErrChanged, name)
			require.Equal(t, digits, got)
		})
	}
}

// What contradicts the first answer, or itself, is refused at once. What was
// read before is as it was.
func TestResumeRefusesWhatContradicts(t *testing.T) {
	const v1 = `"v1"`
	first := brokenOff(200, "0123", "Content-Length", "10")
	sized := func(req *http.Request) (*http.Response, error) {
		resp, err := first(req)
		resp.ContentLength = 10
		return resp, err
	}
	for name, c := range map[string]struct {
		first step
		then  []step
		got   string // 0123 by default
	}{
		"another version":                         {sized, []step{unsized(200, digits, "Etag", `"v2"`)}, ""},
		"a part of another version":               {sized, []step{unsized(206, "456789", "Content-Range", "bytes 4-9/10", "Etag", `"v2"`)}, ""},
		"another part":                            {sized, []step{unsized(206, digits, "Content-Range", "bytes 0-9/10")}, ""},
		"no content":                              {sized, []step{unsized(204, "")}, ""},
		"another complete length":                 {sized, []step{unsized(206, "456789", "Content-Range", "bytes 4-9/12")}, ""},
		"another complete length than before":     {first, []step{brokenOff(206, "45", "Content-Range", "bytes 4-9/10"), unsized(206, "6789", "Content-Range", "bytes 6-9/12")}, "012345"},
		"another length of the whole":             {sized, []step{answerBody(200, digits+"ab", "Etag", v1)}, ""},
		"a whole shorter than what was read":      {first, []step{answerBody(200, "012", "Etag", v1)}, ""},
		"a coding":                                {sized, []step{unsized(206, "456789", "Content-Range", "bytes 4-9/10", "Etag", v1, "Content-Encoding", "gzip")}, ""},
		"a coding of the whole":                   {first, []step{unsized(200, digits, "Etag", v1, "Content-Encoding", "br")}, ""},
		"a coding less":                           {brokenOff(200, "0123", "Content-Encoding", "gzip"), []step{unsized(200, digits, "Etag", v1)}, ""},
		"another coding":                          {brokenOff(200, "0123", "Content-Encoding", "gzip"), []step{unsized(206, "456789", "Content-Range", "bytes 4-9/10", "Content-Encoding", "identity")}, ""},
		"decoded on the way":                      {sized, []step{uncompressed(unsized(206, "456789", "Content-Range", "bytes 4-9/10", "Etag", v1))}, ""},
		"bytes beyond the range":                  {sized, []step{unsized(206, "456789ab", "Content-Range", "bytes 4-9/10")}, digits},
		"bytes beyond a part":                     {first, []step{unsized(206, "456789", "Content-Range", "bytes 4-6/10")}, "0123456"},
		"bytes beyond the whole":                  {sized, []step{unsized(200, digits+"ab", "Etag", v1)}, digits},
		"more than its length":                    {sized, []step{answerBody(206, "456789ab", "Content-Range", "bytes 4-9/10")}, ""},
		"less than its range":                     {sized, []step{answerBody(206, "4567", "Content-Range", "bytes 4-9/10")}, ""},
		"several parts":                           {sized, []step{unsized(206, "--x\r\n", "Content-Type", "multipart/byteranges; boundary=x")}, ""},
		"several parts, and the range of one":     {sized, []step{unsized(206, "--x\r\n1", "Content-Type", "Multipart/ByteRanges; boundary=x", "Content-Range", "bytes 4-9/10")}, ""},
		"two ranges":                              {sized, []step{unsized(206, "456789", "Content-Range", "bytes 4-9/10", "Content-Range", "bytes 0-5/10")}, ""},
		"a range of nothing":                      {sized, []step{unsized(206, "456789", "Content-Range", "bytes */10")}, ""},
		"lines":                                   {sized, []step{unsized(206, "456789", "Content-Range", "lines 4-9/10")}, ""},
		"an end beyond all numbers":               {first, []step{unsized(206, "456789", "Content-Range", "bytes 4-9223372036854775807/*")}, ""},
		"a weak tag":                              {sized, []step{unsized(206, "456789", "Content-Range", "bytes 4-9/10", "Etag", `W/"v1"`)}, ""},
		"a whole of an unknown version":           {first, []step{unsized(200, "abcdefghij")}, ""},
		"a whole of an unknown version as a part": {first, []step{unsized(200, "abcdefghij", "Content-Range", "bytes 4-9/10")}, ""},
		"not modified":                            {sized, []step{unsized(304, "", "Etag", v1)}, ""},
		"moved":                                   {sized, []step{unsized(302, "", "Location", "http://b.test/")}, ""},
		"a whole, after a part":                   {brokenOff(206, "0123", "Content-Range", "bytes 0-4/10"), []step{unsized(200, digits, "Etag", v1)}, ""},
		"beyond the part that was asked for":      {brokenOff(206, "0123", "Content-Range", "bytes 0-4/10"), []step{unsized(206, "456789", "Content-Range", "bytes 4-9/10")}, ""},
		"not satisfiable":                         {sized, []step{answer(416, "Content-Range", "bytes */4")}, ""},
	} {
		bubble(t, name, func(t *testing.T) {
			got, w, err := resumed(t, append([]step{c.first}, c.then...)...)
			require.ErrorIs(t, err, backoffhttp.ErrChanged)
			require.NotErrorIs(t, err, io.EOF)
			require.Equal(t, 1+len(c.then), w.requests(), "asked no further")
			if c.got == "" {
				c.got = "0123"
			}
			require.Equal(t, c.got, got)
		})
	}
}

func uncompressed(s step) step {
	return func(req *http.Request) (*http.Response, error) {
		resp, err := s(req)
		resp.Uncompressed = true
		return resp, err
	}
}

// An answer to If-Range need not repeat the version or the coding (RFC 9110,
// 15.3.7).
func TestResumeTakesAPartThatRepeatsNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		got, _, err := resumed(t, brokenOff(200, "0123", "Content-Encoding", "gzip"),
			answerBody(206, "456789", "Content-Range", "bytes 4-9/10"))
		require.NoError(t, err)
		require.Equal(t, digits, got)
	})
}

// A part whose range and length disagree is not resumed: it comes as it is.
func TestAPartThatContradictsItselfIsNotResumed(t *testing.T) {
	for name, header := range map[string][]string{
		"a length":      {"Etag", `"v1"`, "Content-Range", "bytes 0-9/10"},
		"several parts": {"Etag", `"v1"`, "Content-Range", "bytes 0-3/10", "Content-Type", "multipart/byteranges; boundary=x"},
	} {
		tr, w := scripted(answerBody(206, "0123", header...))
		tr.Resume = true
		require.Equal(t, "0123", text(t, getRoot(t, tr)), name)
		require.Equal(t, 1, w.requests(), name)
	}
}

// The whole again that ends early never looks like the end.
func TestAnEndThatComesTooEarlyIsNoEOF(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		got, w, err := resumed(t, brokenOff(200, "0123"), unsized(200, "01", "Etag", `"v1"`))
		require.Equal(t, "0123", got)
		require.ErrorIs(t, err, io.ErrUnexpectedEOF)
		require.NotErrorIs(t, err, io.EOF)
		require.Equal(t, 4, w.requests())
	})
}

// tickets counts the attempts that a budget has under way.
type tickets struct {
	backoff.BudgetDefaults

	out int
}

func (b *tickets) Reserve(backoff.Attempt) (backoff.Ticket, time.Duration, bool) {
	b.out++
	return backoff.Ticket{}, 0, true
}

func (b *tickets) Done(backoff.Ticket, backoff.Result) { b.out-- }

// A body that is not read to its end keeps no place in a budget.
func TestAResumedBodyGivesItsTicketBack(t *testing.T) {
	rest := unsized(206, "456789", "Content-Range", "bytes 4-9/10")
	for name, c := range map[string]struct {
		then step
		read int64
	}{
		"read to its end":      {rest, 11},
		"closed in the middle": {rest, 6},
		"refused":              {unsized(206, "456789ab", "Content-Range", "bytes 4-9/10"), 12},
	} {
		bubble(t, name, func(t *testing.T) {
			b := &tickets{}
			tr := over(newWire(brokenOff(200, "0123"), c.then))
			tr.Resume, tr.Policy.Budget = true, b
			resp := getRoot(t, tr)
			io.CopyN(io.Discard, resp.Body, c.read)
			require.NoError(t, resp.Body.Close())
			require.NoError(t, resp.Body.Close())
			require.Zero(t, b.out)
			_, err := resp.Body.Read(make([]byte, 1))
			require.Error(t, err)
			require.Zero(t, b.out)
		})
	}
}

// Close may come from another goroutine, while Read waits for bytes.
func TestAResumedBodyClosedDuringAReadGivesItsTicketBack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := &tickets{}
		far, near := io.Pipe()
		defer near.Close()
		tr := over(newWire(brokenOff(200, "0123"), func(req *http.Request) (*http.Response, error) {
			resp, err := unsized(206, "", "Content-Range", "bytes 4-9/10")(req)
			resp.Body = far
			return resp, err
		}))
		tr.Resume, tr.Policy.Budget = true, b
		resp := getRoot(t, tr)
		ended := make(chan error)
		go func() {
			_, err := io.ReadAll(resp.Body)
			ended <- err
		}()
		time.Sleep(time.Minute)
		require.NoError(t, resp.Body.Close())
		require.ErrorIs(t, <-ended, io.ErrClosedPipe)
		require.Zero(t, b.out)
	})
}

// Whatever is answered, what was read is a beginning of the file, and an end
// without an error is the end of the file.
func FuzzResume(f *testing.F) {
	f.Add(206, "bytes 4-9/10", "456789", int64(-1), true)
	f.Add(206, "bytes 4-6/10", "456789", int64(3), false)
	f.Add(206, "bytes 4-6/*", "456", int64(0), true)
	f.Add(200, "", digits, int64(10), true)
	f.Add(416, "bytes */4", "", int64(0), false)
	f.Fuzz(func(t *testing.T, code int, span, body string, length int64, sized bool) {
		right := digits // bytes that are not those of the version that it names, nobody can tell
		if code == 206 {
			right = digits[4:]
		}
		if code < 200 || code > 599 || !strings.HasPrefix(right, body[:min(len(body), len(right))]) {
			return
		}
		first := brokenOff(200, "0123")
		then := func(req *http.Request) (*http.Response, error) {
			resp, err := answerBody(code, body, "Content-Range", span, "Etag", `"v1"`)(req)
			resp.ContentLength = max(-1, length)
			return resp, err
		}
		w := newWire(func(req *http.Request) (*http.Response, error) {
			resp, err := first(req)
			if sized {
				resp.ContentLength = 10
			}
			return resp, err
		}, then)
		tr := over(w)
		tr.Resume, tr.Policy = true, backoff.Policy{Schedule: backoff.Constant(0), MaxAttempts: 2}
		got, err := io.ReadAll(getRoot(t, tr).Body)
		if !strings.HasPrefix(digits, string(got)) || err == nil && sized && string(got) != digits || errors.Is(err, io.EOF) {
			t.Errorf("%d, %q, %q, %d, %v: got %q, %v", code, span, body, length, sized, got, err)
		}
	})
}
