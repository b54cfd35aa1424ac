package schema

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	"github.com/santhosh-tekuri/jsonschema/v6"

	"github.com/agentarbor/arbor/internal/plainjson"
)

// Check returns the first error of a JSON schema of any type, in one line. It opens nothing for a reference.
func Check(schema json.RawMessage) error {
	_, _, err := compile(schema)
	return err
}

// compile returns a schema as decoded JSON, and compiled. It reads no other schema from files or the network.
func compile(schema json.RawMessage) (doc any, compiled *jsonschema.Schema, err error) {
	if _, err := plainjson.Strict(bytes.ToValidUTF8(schema, []byte("?")), maxLevels); err != nil && !errors.Is(err, plainjson.ErrTwice) {
		return nil, nil, err // also for a number that the library cannot represent
	}
	if doc, err = jsonschema.UnmarshalJSON(bytes.NewReader(schema)); err != nil {
		return nil, nil, err
	}
	c := jsonschema.NewCompiler()
	c.DefaultDraft(jsonschema.Draft2020)
	c.UseLoader(jsonschema.SchemeURLLoader{})
	const url = "mem:///schema.json"
	if err := c.AddResource(url, doc); err != nil {
		return nil, nil, err
	}
	compiled, err = c.Compile(url)
	var invalid *jsonschema.ValidationError
	if bad, ok := errors.AsType[*jsonschema.SchemaValidationError](err); ok && errors.As(bad.Err, &invalid) {
		return nil, nil, errors.New(violations(invalid)[0])
	}
	return doc, compiled, err
}

// Fits returns the violations of a JSON schema of any type by a value, with their positions, or the error of the
// schema.
func Fits(schema, value json.RawMessage) error {
	_, compiled, err := compile(schema)
	if err != nil {
		return fmt.Errorf("the schema: %w", err)
	}
	doc, err := Decode(value)
	if err != nil {
		return fmt.Errorf("it is %w", err)
	}
	err = compiled.Validate(doc)
	if invalid, ok := errors.AsType[*jsonschema.ValidationError](err); ok {
		return errors.New(strings.Join(violations(invalid), "; "))
	}
	return err
}
