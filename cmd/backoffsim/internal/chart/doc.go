// Package chart draws what the simulator measured, as SVG.
//
// A [Chart] is plain data: numbers, the names of the policies that they belong
// to, and a [Frame] that says under which conditions they were measured. The
// same data give the same bytes.
//
// Every picture is readable in light and dark colour schemes and without
// colours. A line has its own colour and dashes, and the label at its end begins
// with a sample of it. A picture says in words that a policy never recovers.
package chart
