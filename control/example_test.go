package control_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"

	"github.com/gobackoff/backoff"
	"github.com/gobackoff/backoff/control"
	"github.com/gobackoff/backoff/guard"
)

func ExamplePanel() {
	ctx := context.Background()
	var panel control.Panel
	searching := panel.Policy(backoff.Policy{Name: "search", Schedule: backoff.Constant(0)})
	search := func(context.Context) error { return errors.New("shard 7 is busy") }

	fmt.Println(searching.Do(ctx, search))
	off := control.Override{
		Target: control.Target{What: control.Retries, Name: "search"},
		To:     control.Off,
		Who:    "ada",
		Why:    "shard 7 is overloaded",
	}
	if err := panel.Set(ctx, off); err != nil {
		fmt.Println(err)
	}
	fmt.Println(searching.Do(ctx, search))
	// Output:
	// backoff: search: gave up after 4 attempts: shard 7 is busy
	// backoff: search: gave up after 1 attempt; retries are switched off: shard 7 is busy
}

// A spec has the settings that change; all others stay.
func ExampleOverride() {
	ctx := context.Background()
	var panel control.Panel
	searching := panel.Policy(backoff.Policy{Name: "search", MaxAttempts: 5, Schedule: backoff.Constant(0)})

	change := control.Override{Target: control.Target{What: control.Spec, Name: "search"}, Who: "ada", Why: "shard 7 is overloaded"}
	change.To = `{"maxAttempts": 2, "maxElapsed": "-1s"}`
	fmt.Println(panel.Set(ctx, change))
	fmt.Println(searching.Policy().MaxAttempts)

	change.To = `{"maxAttempts": 2}`
	fmt.Println(panel.Set(ctx, change))
	fmt.Println(searching.Policy().MaxAttempts)
	// Output:
	// backoff: spec: maxElapsed is "-1s", want a duration of 0 or more, such as "1.5s", or -1 where there may be no limit
	// 5
	// <nil>
	// 2
}

func ExampleTarget() {
	ctx := context.Background()
	var panel control.Panel
	var hosts guard.Services
	panel.Services("hosts", &hosts)
	api := hosts.For("api.example.com")

	down := control.Target{What: control.Breakers, Name: "hosts", Key: "api.example.com"}
	err := panel.Set(ctx, control.Override{Target: down, To: backoff.ModeForcedOpen.String(), Who: "ada", Why: "migration"})
	fmt.Println(err, api.State().Breaker.State)
	err = panel.Clear(ctx, down, "bob", "migration is over")
	fmt.Println(err, api.State().Breaker.State)
	// Output:
	// <nil> open
	// <nil> closed
}

func ExampleHandle() {
	ctx := context.Background()
	var panel control.Panel
	var fetching = panel.Policy(backoff.Policy{Name: "fetch"})

	page, err := backoff.DoValue(ctx, fetching.Policy(), func(context.Context) (string, error) {
		return "hello", nil
	})
	fmt.Println(page, err)
	// Output:
	// hello <nil>
}

func ExampleChange() {
	ctx := context.Background()
	log := slog.New(slog.NewTextHandler(os.Stdout, &slog.HandlerOptions{ReplaceAttr: func(_ []string, a slog.Attr) slog.Attr {
		if a.Value.Kind() == slog.KindTime { // for the same output at any time
			return slog.Attr{}
		}
		return a
	}}))
	panel := control.Panel{Observer: func(ctx context.Context, c control.Change) { log.WarnContext(ctx, "override", "control", c) }}
	panel.Policy(backoff.Policy{Name: "search"})
	_ = panel.Set(ctx, control.Override{Target: control.Target{What: control.Retries, Name: control.All}, To: control.Off, Who: "ada", Why: "drill"})
	// Output:
	// level=WARN msg=override control.change=set control.what=retries control.name=* control.to=off control.who=ada control.why=drill
}
