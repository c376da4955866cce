package recipes

import (
	"context"
	"fmt"
	"io"
	"os"

	"github.com/gobackoff/backoff"
	"github.com/gobackoff/backoff/spec"
)

// service makes the policy of a file, inside its breaker.
func service(name string) (backoff.Doer, error) {
	text, err := os.ReadFile(name)
	if err != nil {
		return nil, err
	}
	s, err := spec.Parse(text)
	if err != nil {
		return nil, err // it names the field, and what it may be
	}
	return s.Stack()
}

// The file says 3 attempts. A mistake in a file is an error.
func Example_file() {
	search, err := service("testdata/search.json")
	if err != nil {
		fmt.Println(err)
		return
	}
	attempts := 0
	err = search.Do(context.Background(), func(context.Context) error {
		attempts++
		return io.ErrUnexpectedEOF
	})
	fmt.Println(attempts, "attempts:", err)
	_, err = spec.Parse([]byte(`{"maxAttempts": -2}`))
	fmt.Println(err)
	// Output:
	// 3 attempts: backoff: search: gave up after 3 attempts: unexpected EOF
	// backoff: spec: maxAttempts is -2, want a whole number of 0 or more, or -1 for no limit
}
