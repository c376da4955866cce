package percall

import (
	"context"
	"fmt"

	"github.com/gobackoff/backoff"
)

func ExampleBreaker() {
	b := &backoff.Breaker{}
	fmt.Println(b.Do(context.Background(), op))
}
