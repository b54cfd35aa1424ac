package eval

import (
	"cmp"
	"encoding/xml"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/agentarbor/arbor/internal/visible"
)

// The format of JUnit's reports, which continuous integration reads. encoding/xml replaces characters that XML cannot
// contain by U+FFFD, and package visible makes control characters visible before.
type (
	junitSuites struct {
		XMLName  xml.Name     `xml:"testsuites"`
		Name     string       `xml:"name,attr"`
		Tests    int          `xml:"tests,attr"`
		Failures int          `xml:"failures,attr"`
		Errors   int          `xml:"errors,attr"`
		Time     string       `xml:"time,attr"`
		Suites   []junitSuite `xml:"testsuite"`
	}
	junitSuite struct {
		Name     string      `xml:"name,attr"`
		Tests    int         `xml:"tests,attr"`
		Failures int         `xml:"failures,attr"`
		Errors   int         `xml:"errors,attr"`
		Skipped  int         `xml:"skipped,attr"`
		Time     string      `xml:"time,attr"`
		Cases    []junitCase `xml:"testcase"`
	}
	junitCase struct {
		Name    string      `xml:"name,attr"`
		Class   string      `xml:"classname,attr"`
		File    string      `xml:"file,attr,omitempty"`
		Line    int         `xml:"line,attr,omitempty"`
		Time    string      `xml:"time,attr"`
		Failure *junitFault `xml:"failure"`
		Error   *junitFault `xml:"error"`
		Out     string      `xml:"system-out,omitempty"`
	}
	junitFault struct {
		Message string `xml:"message,attr"`
		Type    string `xml:"type,attr"`
		Text    string `xml:",chardata"`
	}
)

// JUnit writes the report as XML in JUnit's format: a suite per subject, and a test case for each time that a case was
// played. A turn that ended with an error is an error; every other unexpected result is a failure. The error is the
// writer's.
func (r *Report) JUnit(w io.Writer) error {
	all := junitSuites{Name: "arbor eval"}
	total := time.Duration(0)
	for i := range r.Subjects {
		s, took := r.Subjects[i].junit(r.Repeat)
		all.Suites = append(all.Suites, s)
		all.Tests, all.Failures, all.Errors = all.Tests+s.Tests, all.Failures+s.Failures, all.Errors+s.Errors
		total += took
	}
	all.Time = seconds(total)
	if _, err := io.WriteString(w, xml.Header); err != nil {
		return err
	}
	enc := xml.NewEncoder(w)
	enc.Indent("", " ")
	if err := enc.Encode(all); err != nil {
		return err
	}
	_, err := io.WriteString(w, "\n")
	return err
}

func (r *Results) junit(repeat int) (junitSuite, time.Duration) {
	s := junitSuite{Name: visible.Line(r.Subject), Tests: len(r.Outcomes)}
	total := time.Duration(0)
	for i := range r.Outcomes {
		o := &r.Outcomes[i]
		c := junitCase{Name: visible.Line(o.Case), Class: visible.Line(r.Subject), File: visible.Line(o.File), Line: o.Line}
		if repeat > 1 {
			c.Name += fmt.Sprintf(" #%d", o.Repeat) // programs that read the file require unique names
		}
		took := time.Duration(0)
		for j := range o.Turns {
			took += o.Turns[j].Took
		}
		total += took
		c.Time = seconds(took)
		if !o.OK() {
			fault := o.fault()
			if fault.Type == "error" {
				c.Error = fault
				s.Errors++
			} else {
				c.Failure = fault
				s.Failures++
			}
			c.Out = o.told()
		}
		s.Cases = append(s.Cases, c)
	}
	s.Time = seconds(total)
	return s, total
}

// fault returns the unexpected results: the first one as its message, all of them as its text.
func (o *Outcome) fault() *junitFault {
	f := &junitFault{}
	var lines []string
	o.wrong(func(turn int, d Difference) {
		f.Message = cmp.Or(f.Message, visible.Line(d.Message))
		f.Type = cmp.Or(f.Type, d.Kind)
		if d.Kind == "error" {
			f.Type, f.Message = d.Kind, visible.Line(d.Message)
		}
		at := ""
		if turn > 0 {
			at = fmt.Sprintf("turn %d: ", turn)
		}
		lines = append(lines, visible.Line(at+d.Kind+": "+d.Message))
	})
	if o.File != "" {
		lines = append(lines, visible.Line(fmt.Sprintf("%s:%d", o.File, o.Line)))
	}
	f.Text = strings.Join(lines, "\n")
	return f
}

// wrong calls see for each unexpected result, with the number of its turn from 1, or 0 for the case as a whole.
func (o *Outcome) wrong(see func(turn int, d Difference)) {
	for i := range o.Turns {
		for _, d := range o.Turns[i].Differences {
			see(i+1, d)
		}
	}
	for _, d := range o.Differences {
		see(0, d)
	}
}

// told returns the texts of all turns.
func (o *Outcome) told() string {
	var b strings.Builder
	for i := range o.Turns {
		t := &o.Turns[i]
		fmt.Fprintf(&b, "user: %s\n", visible.Line(t.User))
		fmt.Fprintf(&b, "%s: %s\n", visible.Line(cmp.Or(t.Answered, "nobody")), visible.Text(t.Said))
	}
	return b.String()
}

func seconds(d time.Duration) string { return fmt.Sprintf("%.3f", d.Seconds()) }
