package backoff

import "context"

// A Priority says how much a call matters compared to others. See
// [WithPriority].
type Priority int8

const (
	// PriorityBackground is for work that nobody waits for, such as a nightly job.
	PriorityBackground Priority = iota - 1
	// PriorityNormal is the priority of every call that has no other one.
	PriorityNormal
	// PriorityHigh is for work that somebody waits for.
	PriorityHigh
)

// String returns the name of the priority in lower case.
func (p Priority) String() string {
	return [...]string{"background", "normal", "high", "invalid"}[min(uint8(p-PriorityBackground), 3)]
}

// priorityKey is the key of a priority in a context.
type priorityKey struct{}

// WithPriority returns a context for calls that matter more or less than others.
// A call of high priority waits half as long between attempts as a normal one,
// and a background one four times as long, within [Policy.MaxDelay]. What a server
// asked for is not shortened. A [Budget] may refuse calls of low priority first,
// as the Throttle of package limit does. A priority out of range counts as the
// nearest one.
func WithPriority(ctx context.Context, p Priority) context.Context {
	return context.WithValue(ctx, priorityKey{}, min(max(p, PriorityBackground), PriorityHigh))
}

// PriorityOf returns the priority that ctx carries, or PriorityNormal.
func PriorityOf(ctx context.Context) Priority {
	p, _ := ctx.Value(priorityKey{}).(Priority)
	return p
}
