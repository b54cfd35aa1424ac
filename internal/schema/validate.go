// Package schema generates JSON schemas of Go types and checks JSON against them. Tools' arguments and the inputs of
// transfers share it.
package schema

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/santhosh-tekuri/jsonschema/v6"
	"github.com/santhosh-tekuri/jsonschema/v6/kind"
	"golang.org/x/text/language"
	"golang.org/x/text/message"

	"github.com/agentarbor/arbor/internal/visible"
)

// Subject is what a [Validator] checks, in the words of its errors.
type Subject struct{ is, fits string }

// What the packages of this module check.
var (
	Arguments = Subject{"the arguments are", "the arguments do not fit"}
	Input     = Subject{"the input is", "the input does not fit"}
	Answer    = Subject{"the answer is", "the answer does not fit"}
)

// Validator checks JSON against the schema of an object and returns all violations at once, so that a model can correct
// all of them in its next answer.
type Validator struct {
	schema  *jsonschema.Schema
	subject Subject
	rawOK   bool // the schema itself has a property "raw"
}

// Compile compiles a JSON schema of an object. The subject is what the errors of the Validator name.
func Compile(schema json.RawMessage, subject Subject) (*Validator, error) {
	doc, compiled, err := compile(schema)
	object, ok := doc.(map[string]any)
	switch {
	case err != nil:
		return nil, fmt.Errorf("parameters: %w", err)
	case !ok || object["type"] != "object":
		return nil, errors.New(`parameters must be a JSON schema of type "object"`)
	}
	props, _ := object["properties"].(map[string]any)
	_, rawOK := props["raw"]
	return &Validator{compiled, subject, rawOK}, nil
}

// Validate returns an error for a model with every violation of the schema.
func (v *Validator) Validate(input json.RawMessage) error {
	doc, err := Decode(input)
	if err != nil {
		return fmt.Errorf("%s %w", v.subject.is, err)
	}
	if object, ok := doc.(map[string]any); ok && len(object) == 1 && !v.rawOK {
		if raw, ok := object["raw"].(string); ok {
			return fmt.Errorf("%s not a JSON object: %q", v.subject.is, visible.Cut(raw, 200))
		}
	}
	err = v.schema.Validate(doc)
	if invalid, ok := errors.AsType[*jsonschema.ValidationError](err); ok {
		all := violations(invalid)
		slices.SortFunc(all, func(a, b string) int { // their order is that of a map, and equal errors must have equal texts
			return cmp.Or(cmp.Compare(whole(a), whole(b)), cmp.Compare(a, b))
		})
		return errors.New(v.subject.fits + " the schema: " + strings.Join(all, "; "))
	}
	return err
}

// whole returns 1 for a violation of the object as a whole, which comes last.
func whole(violation string) int {
	if strings.HasPrefix(violation, "/:") {
		return 1
	}
	return 0
}

func violations(e *jsonschema.ValidationError) []string {
	if len(e.Causes) > 0 {
		var all []string
		for _, c := range e.Causes {
			all = append(all, violations(c)...)
		}
		return all
	}
	if k, ok := e.ErrorKind.(*kind.AdditionalProperties); ok {
		slices.Sort(k.Properties)
	}
	where := "/" + strings.Join(e.InstanceLocation, "/")
	return []string{where + ": " + e.ErrorKind.LocalizedString(message.NewPrinter(language.English))}
}
