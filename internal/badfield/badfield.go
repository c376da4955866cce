// Package badfield is how the module's own packages tell one another which field is not
// as it must be. To everybody else it is a line of text.
package badfield

// An Error names a field, such as "Policy.Schedule: Exponential.Multiplier", and says
// what is wrong with it, beginning with the verb.
type Error struct{ Field, Problem string }

// Error returns one line.
func (e *Error) Error() string { return "backoff: " + e.Field + " " + e.Problem }
