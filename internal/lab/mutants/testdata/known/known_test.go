package known

import (
	"errors"
	"testing"
)

func want[T comparable](t *testing.T, want, got T) {
	t.Helper()
	if got != want {
		t.Errorf("got %v, want %v", got, want)
	}
}

func TestOperators(t *testing.T) {
	want(t, 5, Sum(2, 3))
	want(t, true, Less(1, 2))
	want(t, false, Less(2, 2))
	want(t, false, Both(true, false))
	want(t, false, Both(false, true))
	a, b := Negative(1, true)
	want(t, -1, a)
	want(t, false, b)
}

func TestConditions(t *testing.T) {
	want(t, 3, Limited(true))
	want(t, 2, Limited(false))
	want(t, "known", Name(0, true))
	want(t, "zero", Name(0, false))
	want(t, "one", Name(1, false))
	want(t, "many", Name(2, false))
	want(t, true, Always())
}

func TestErrors(t *testing.T) {
	_, err := First([]int{})
	want(t, true, errors.Is(err, ErrEmpty))
	first, err := First([]string{"a", "b"})
	want(t, "a", first)
	want(t, nil, err)
}

func TestStatements(t *testing.T) {
	p := Pair{}
	p.Add(0, 1, 2)
	want(t, Pair{1, 2}, p)
	want(t, Pair{2, 1}, p.Swap(struct{}{}))
	want(t, 2, Count(2))
}

func TestWeak(*testing.T) { Weak(1) }

func TestQuiet(*testing.T) {
	defer Quiet()
	panic("recovered")
}
