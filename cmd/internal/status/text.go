package status

import (
	"fmt"
	"io"
	"reflect"
	"strings"
	"text/tabwriter"
	texttemplate "text/template"

	"github.com/idworker/idworker/cmd/internal/doctor"
	"github.com/idworker/idworker/internal/forecast"
)

// Print writes a view for a terminal. Names of processes and tags cannot control
// the terminal.
func (v View) Print(out io.Writer) error {
	aligned := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0) // a line without tabs ends a table
	if err := text.Execute(aligned, v); err != nil {
		return err
	}
	return aligned.Flush()
}

// text is the template, which prints nothing but by line and row.
var text = texttemplate.Must(texttemplate.New("status.txt").Funcs(texttemplate.FuncMap{
	"line": func(format string, args ...any) string { return Printable(fmt.Sprintf(format, args...)) + "\n" },
	"row": func(cells ...any) string {
		texts := make([]string, len(cells))
		for i, cell := range cells {
			texts[i] = Printable(fmt.Sprint(reflect.Indirect(reflect.ValueOf(cell))))
		}
		return strings.Join(texts, "\t") + "\n"
	},
	"duration": doctor.Duration,
	"rate":     Rate,
	"count":    Count,
	"day":      forecast.Day,
	"bar":      bar,
}).ParseFS(files, "status.txt"))

// bar shows a percentage.
func bar(full float64) string {
	const width = 10
	filled := int(width * full / 100)
	return "[" + strings.Repeat("#", filled) + strings.Repeat(".", width-filled) + "]"
}
