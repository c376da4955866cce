package migrate

import (
	"fmt"
	"strings"
)

// context is how many lines a diff has around a change.
const around = 3

// A line of a diff, with ' ', '-' or '+' before it.
type line struct {
	kind byte
	text string
}

// diff returns the difference of two texts in the unified form.
func diff(name, before, after string) string {
	lines := compare(strings.SplitAfter(before, "\n"), strings.SplitAfter(after, "\n"))
	var out strings.Builder
	fmt.Fprintf(&out, "--- a/%s\n+++ b/%s\n", name, name)
	old, now := 1, 1
	for i := 0; i < len(lines); {
		end := hunk(lines, i)
		if end == i {
			old, now, i = old+1, now+1, i+1
			continue
		}
		old, now = writeHunk(&out, lines[i:end], old, now)
		i = end
	}
	return out.String()
}

// hunk returns the end of the hunk that begins at a line, or the line itself if none does.
func hunk(lines []line, begin int) int {
	end, same := begin, 0
	for i := begin; i < len(lines); i++ {
		if lines[i].kind != ' ' {
			end, same = i+1, 0
			continue
		}
		same++
		if same > around && end == begin || same > 2*around {
			break
		}
	}
	if end == begin {
		return begin
	}
	return min(end+around, len(lines))
}

// writeHunk writes a hunk, and returns the numbers of the lines after it.
func writeHunk(out *strings.Builder, lines []line, old, now int) (int, int) {
	var body strings.Builder
	o, n := 0, 0
	for _, l := range lines {
		if l.text == "" {
			continue
		}
		if l.kind != '+' {
			o++
		}
		if l.kind != '-' {
			n++
		}
		body.WriteByte(l.kind)
		body.WriteString(strings.TrimSuffix(l.text, "\n"))
		body.WriteByte('\n')
	}
	fmt.Fprintf(out, "@@ -%d,%d +%d,%d @@\n%s", old, o, now, n, body.String())
	return old + o, now + n
}

// compare returns the lines of both texts, with as many as possible in common. The common lines at
// both ends are not looked at further, since the time that the rest takes is that of its square.
func compare(a, b []string) []line {
	head := 0
	for head < len(a) && head < len(b) && a[head] == b[head] {
		head++
	}
	tail := 0
	for tail < len(a)-head && tail < len(b)-head && a[len(a)-1-tail] == b[len(b)-1-tail] {
		tail++
	}
	lines := tagged(' ', a[:head])
	lines = append(lines, longest(a[head:len(a)-tail], b[head:len(b)-tail])...)
	return append(lines, tagged(' ', a[len(a)-tail:])...)
}

// longest compares by the longest common subsequence.
func longest(a, b []string) []line {
	common := make([][]int32, len(a)+1)
	for i := range common {
		common[i] = make([]int32, len(b)+1)
	}
	for i := len(a) - 1; i >= 0; i-- {
		for j := len(b) - 1; j >= 0; j-- {
			common[i][j] = max(common[i+1][j], common[i][j+1])
			if a[i] == b[j] {
				common[i][j] = common[i+1][j+1] + 1
			}
		}
	}
	var lines []line
	i, j := 0, 0
	for i < len(a) && j < len(b) {
		switch {
		case a[i] == b[j]:
			lines = append(lines, line{' ', a[i]})
			i, j = i+1, j+1
		case common[i+1][j] >= common[i][j+1]:
			lines = append(lines, line{'-', a[i]})
			i++
		default:
			lines = append(lines, line{'+', b[j]})
			j++
		}
	}
	return append(append(lines, tagged('-', a[i:])...), tagged('+', b[j:])...)
}

func tagged(kind byte, texts []string) []line {
	var lines []line
	for _, text := range texts {
		lines = append(lines, line{kind, text})
	}
	return lines
}
