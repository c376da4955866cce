package backoffslog

import "strings"

// The places that ends finds. A quote is found as itself.
const (
	wordStop = iota // a space
	lineStop        // the end of a line
	urlStop         // a space, or a double quote that is not escaped
	aQuery          // the "?" or "#" before a query or a fragment
	double          // the closing quotes
	single
	back
	places
)

// ends finds where things end in a text. It remembers the last answer of each
// kind, which holds for all places before it. So a walk through the text from
// left to right reads each byte once for each kind, however often it asks.
type ends struct {
	text  string
	known [places]struct{ from, to int }
	steps int // how many bytes were read, for a test
}

func newEnds(text string) ends {
	e := ends{text: text}
	for i := range e.known {
		e.known[i].to = -1
	}
	return e
}

// find returns the first place at or after from, or the end of the text.
func (e *ends) find(place, from int) int {
	k := &e.known[place]
	if from < k.from || from > k.to {
		k.from, k.to = from, e.scan(place, from)
		e.steps += k.to - from + 1
	}
	return k.to
}

// quoteEnd returns where a quotation ends. from is not the middle of an escape.
func (e *ends) quoteEnd(quote byte, from int) int {
	return e.find(double+strings.IndexByte(quotes, quote), from)
}

// scan reads the text.
func (e *ends) scan(place, from int) int {
	for i := from; i < len(e.text); i++ {
		c, found := e.text[i], false
		switch place {
		case wordStop:
			found = in(spaces, c)
		case lineStop:
			found = c == '\r' || c == '\n'
		case urlStop:
			found = in(spaces, c) || c == '"' && e.text[i-1] != '\\'
		case aQuery:
			found = c == '?' || c == '#'
		default:
			if c == '\\' {
				i++
				continue
			}
			found = c == quotes[place-double]
		}
		if found {
			return i
		}
	}
	return len(e.text)
}
