package health

import (
	"fmt"
	"io"
	"reflect"
	"strings"
	"text/tabwriter"
	"text/template"

	"github.com/idworker/idworker/cmd/internal/format"
	"github.com/idworker/idworker/internal/forecast"
)

// Print writes a view for a terminal. Names of processes and tags cannot
// control the terminal.
func (v View) Print(out io.Writer) error {
	// A line without tabs ends a table.
	aligned := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	if err := text.Execute(aligned, v); err != nil {
		return err
	}
	return aligned.Flush()
}

// text is the template, which prints only through line and row.
var text = template.Must(template.New("status.txt").Funcs(formats).ParseFS(files, "status.txt"))

// formats are the functions of both templates.
var formats = template.FuncMap{
	"duration": format.Duration,
	"rate":     format.Rate,
	"count":    format.Count,
	"of":       format.Of,
	"day":      forecast.Day,
	"bar":      bar,
	"line":     func(layout string, args ...any) string { return format.Printable(fmt.Sprintf(layout, args...)) + "\n" },
	"row": func(cells ...any) string {
		texts := make([]string, len(cells))
		for i, cell := range cells {
			texts[i] = format.Printable(fmt.Sprint(reflect.Indirect(reflect.ValueOf(cell))))
		}
		return strings.Join(texts, "\t") + "\n"
	},
}

// bar draws a percentage.
func bar(full float64) string {
	const width = 10
	filled := int(width * full / 100)
	return "[" + strings.Repeat("#", filled) + strings.Repeat(".", width-filled) + "]"
}
