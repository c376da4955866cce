package main

import (
	"bytes"
	"context"
	"fmt"
	"strings"
	"testing"
	"time"
)

// A busy machine may spoil one run, but not three.
func TestOnlyTheBudgetedServerComesBack(t *testing.T) {
	for try := 1; ; try++ {
		var out bytes.Buffer
		begin := time.Now()
		without, with, err := run(t.Context(), &out)
		if err != nil {
			t.Fatal(err)
		}
		t.Logf("\n%s", &out)
		if took := time.Since(begin); took > 15*time.Second {
			t.Errorf("it took %v", took)
		}
		if !strings.Contains(out.String(), "never without a budget") {
			t.Error("it came back without a budget, or the last line does not say so")
		}
		problem := compare(without, with)
		if problem == "" {
			return
		}
		if try == 3 {
			t.Fatal(problem)
		}
	}
}

// compare says what is wrong in the last seconds.
func compare(without, with *client) string {
	var a, b figures
	end := int(duration/time.Second) - 1
	for i := end - 3; i < end; i++ {
		a, b = a.plus(without.second(i)), b.plus(with.second(i))
	}
	switch {
	case a.answered > a.calls/4 || a.perCall() < 2:
		return fmt.Sprintf("without a budget: %+v", a)
	case b.answered < b.calls*8/10 || b.perCall() > 1.2:
		return fmt.Sprintf("with a budget: %+v", b)
	}
	return ""
}

func (f figures) plus(g figures) figures {
	return figures{f.calls + g.calls, f.attempts + g.attempts, f.answered + g.answered}
}

func TestItEndsWithItsContext(t *testing.T) {
	ctx, cancel := context.WithTimeout(t.Context(), 200*time.Millisecond)
	defer cancel()
	begin := time.Now()
	if _, _, err := run(ctx, new(bytes.Buffer)); err != nil {
		t.Fatal(err)
	}
	if took := time.Since(begin); took > 3*time.Second {
		t.Errorf("it took %v", took)
	}
}
