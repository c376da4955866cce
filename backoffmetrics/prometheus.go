package backoffmetrics

import (
	"math"
	"slices"
	"strconv"
	"strings"
)

// contentType is that of the exposition format of Prometheus.
const contentType = "text/plain; version=0.0.4; charset=utf-8"

// exposition is a text that is being written.
type exposition struct{ text []byte }

// expose returns all series as text.
func (m *Metrics) expose() []byte {
	var x exposition
	for _, f := range m.Families() {
		x.family(&f)
	}
	return x.text
}

// family writes a family.
func (x *exposition) family(f *Family) {
	x.text = append(x.text, "# HELP "+f.Name+" "+f.Help+"\n# TYPE "+f.Name+" "+f.Type+"\n"...)
	for _, s := range f.Samples {
		if f.Type == "histogram" {
			x.histogram(f.Name, &s)
			continue
		}
		x.series(f.Name, s.Labels...)
		x.text = append(strconv.AppendFloat(x.text, s.Value, 'f', -1, 64), '\n')
	}
}

// histogram writes the lines of a histogram.
func (x *exposition) histogram(name string, s *Sample) {
	var total uint64
	for i, n := range s.Counts {
		total += n
		bound := math.Inf(1)
		if i < len(s.Bounds) {
			bound = s.Bounds[i]
		}
		x.series(name+"_bucket", append(slices.Clip(s.Labels), "le", float(bound))...)
		x.text = append(strconv.AppendUint(x.text, total, 10), '\n')
	}
	x.series(name+"_sum", s.Labels...)
	x.text = append(x.text, float(s.Sum)+"\n"...)
	x.series(name+"_count", s.Labels...)
	x.text = append(strconv.AppendUint(x.text, total, 10), '\n')
}

// float returns f in the exposition format.
func float(f float64) string { return strconv.FormatFloat(f, 'g', -1, 64) }

// series writes a line up to its value.
func (x *exposition) series(name string, labels ...string) {
	x.text = append(append(x.text, seriesName(name, labels)...), ' ')
}

// seriesName returns a name with its labels, which are pairs of a name and a
// value.
func seriesName(name string, labels []string) string {
	text := []byte(name)
	for i := 0; i < len(labels); i += 2 {
		text = append(text, "{,"[min(i, 1)])
		text = append(append(text, labels[i]...), `="`...)
		text = append(append(text, escape.Replace(labels[i+1])...), '"')
	}
	return string(append(text, '}'))
}

// escape replaces what must not stand in the value of a label.
var escape = strings.NewReplacer(`\`, `\\`, `"`, `\"`, "\n", `\n`)
