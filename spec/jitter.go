package spec

import (
	"encoding/json"

	"github.com/gobackoff/backoff"
	"github.com/gobackoff/backoff/internal/shape"
)

// jitter is the name of a jitter without parameters, or an object with one
// member for a jitter that has some.
type jitter struct {
	Kind         string        `json:"-"`
	Decorrelated *decorrelated `json:"decorrelated,omitzero"`
	Uniform      *uniform      `json:"uniform,omitzero"`
	Added        *duration     `json:"added,omitzero"`
	Slotted      *duration     `json:"slotted,omitzero"`
}

// decorrelated holds the parameters of [backoff.DecorrelatedJitter].
type decorrelated struct {
	Base duration `json:"base,omitzero"`
	Max  duration `json:"max,omitzero"`
}

// uniform holds the parameters of [backoff.UniformJitter].
type uniform struct {
	Low  float64 `json:"low,omitzero"`
	High float64 `json:"high,omitzero"`
}

var jitters = map[string]backoff.Jitter{
	"none":  backoff.NoJitter,
	"full":  backoff.FullJitter,
	"equal": backoff.EqualJitter,
}

// fromToken implements literal.
func (j *jitter) fromToken(token json.Token) bool {
	j.Kind, _ = token.(string)
	return jitters[j.Kind] != nil
}

// wanted implements literal.
func (j *jitter) wanted() string {
	return "none, full, equal, or an object with one of " + names(*j)
}

// MarshalJSON implements json.Marshaler.
func (j jitter) MarshalJSON() ([]byte, error) {
	if j.Kind != "" {
		return json.Marshal(j.Kind)
	}
	type object jitter
	return json.Marshal(object(j))
}

// check returns the problem of bounds that the library refuses. A jitter is a
// function, so the library cannot say which bounds it was made from. check adds
// them to the text.
func (j *jitter) check(path string) error {
	if j == nil || j.Kind != "" {
		return nil
	}
	member, bounds, err := oneOf(path, *j)
	if err != nil || (backoff.Policy{Jitter: j.build()}).Validate() == nil {
		return err
	}
	text, _ := json.Marshal(bounds)
	return problem(path+"."+member, "is "+string(text)+", want "+wantedBounds[member])
}

// wantedBounds are the bounds that the library takes.
var wantedBounds = map[string]string{
	"decorrelated": "0 <= base <= max",
	"uniform":      "0 <= low <= high",
	"added":        "0 or more",
	"slotted":      "more than 0",
}

// build returns the jitter; nil for nil.
func (j *jitter) build() backoff.Jitter {
	switch {
	case j == nil:
		return nil
	case j.Kind != "":
		return jitters[j.Kind]
	case j.Decorrelated != nil:
		return backoff.DecorrelatedJitter(j.Decorrelated.Base.value(), j.Decorrelated.Max.value())
	case j.Uniform != nil:
		return backoff.UniformJitter(j.Uniform.Low, j.Uniform.High)
	case j.Added != nil:
		return shape.Added(j.Added.value())
	}
	return shape.Slotted(j.Slotted.value())
}
