{{/* The labels that select a component's pods. */}}
{{- define "idworker.selector" -}}
app.kubernetes.io/name: idworker
app.kubernetes.io/instance: {{ .root.Release.Name }}
{{- with .component }}
app.kubernetes.io/component: {{ . }}
{{- end }}
{{- end }}

{{- define "idworker.labels" -}}
{{ include "idworker.selector" . }}
app.kubernetes.io/version: {{ .root.Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .root.Release.Service }}
helm.sh/chart: {{ .root.Chart.Name }}-{{ .root.Chart.Version }}
{{- end }}

{{- define "idworker.image" -}}
image: {{ .Values.image.repository }}:{{ .Values.image.tag | default .Chart.AppVersion }}
imagePullPolicy: {{ .Values.image.pullPolicy }}
{{- end }}

{{- define "idworker.pod" -}}
automountServiceAccountToken: false
# A Service named idworker-… would set variables that look like settings.
enableServiceLinks: false
securityContext:
  {{- toYaml .Values.podSecurityContext | nindent 2 }}
{{- with .Values.pod }}
{{ toYaml . }}
{{- end }}
{{- end }}

{{/* Also if a zone is lost, all pods are scheduled. */}}
{{- define "idworker.spread" -}}
topologySpreadConstraints:
{{- range list "topology.kubernetes.io/zone" "kubernetes.io/hostname" }}
  - maxSkew: 1
    topologyKey: {{ . }}
    whenUnsatisfiable: ScheduleAnyway
    labelSelector:
      matchLabels:
        {{- include "idworker.selector" $ | nindent 8 }}
{{- end }}
{{- end }}

{{/* A new pod for new settings, and metrics without a PodMonitor. */}}
{{- define "idworker.annotations" -}}
idworker/settings: {{ include "idworker.settings" . | sha256sum }}
{{- if not .Values.monitoring.podMonitor.enabled }}
prometheus.io/scrape: "true"
prometheus.io/port: "9090"
{{- end }}
{{- end }}

{{/* Variables and not flags, so that `kubectl exec … -- idworker doctor` uses them, too. */}}
{{- define "idworker.login" -}}
{{- $nats := .root.Values.nats -}}
{{- if eq $nats.login "password" -}}
- {name: IDWORKER_USER, value: {{ .component }}}
- {name: IDWORKER_PASSWORD_FILE, value: /etc/idworker/login}
{{- else -}}
- {name: IDWORKER_{{ upper $nats.login }}, value: /etc/idworker/login}
{{- end }}
- {name: IDWORKER_INBOX_PREFIX, value: _INBOX_{{ .component }}}
{{- if $nats.tls.secret }}
- {name: IDWORKER_TLSCA, value: /etc/idworker/ca.crt}
{{- if $nats.tls.client }}
- {name: IDWORKER_TLSCERT, value: /etc/idworker/nats.crt}
- {name: IDWORKER_TLSKEY, value: /etc/idworker/nats.key}
{{- end }}
{{- end }}
{{- end }}

{{- define "idworker.installation" -}}
- name: IDWORKER_INSTALLATION
  valueFrom:
    secretKeyRef: {name: {{ .root.Release.Name }}-installation, key: installation}
{{- end }}

{{/* The Secrets' keys that NATS needs, for a projected volume. */}}
{{- define "idworker.secrets" -}}
{{- $nats := .root.Values.nats -}}
{{- $key := dict "password" (printf "IDS_%s_PASSWORD" (upper .component)) "creds" (printf "%s.creds" .component) "nkey" (printf "%s.nk" .component) -}}
- secret:
    name: {{ $nats.secret }}
    items: [{key: {{ get $key $nats.login }}, path: login}]
{{- if $nats.tls.secret }}
- secret:
    name: {{ $nats.tls.secret }}
    items:
      - {key: ca.crt, path: ca.crt}
      {{- if $nats.tls.client }}
      - {key: tls.crt, path: nats.crt}
      - {key: tls.key, path: nats.key}
      {{- end }}
{{- end }}
{{- end }}

{{/* A process that waits for NATS lives, but is not ready. */}}
{{- define "idworker.probes" -}}
startupProbe:
  httpGet: {path: /healthz, port: http}
  periodSeconds: 1
  failureThreshold: 60
livenessProbe:
  httpGet: {path: /healthz, port: http}
  periodSeconds: 10
  timeoutSeconds: 5
readinessProbe:
  httpGet: {path: /readyz, port: http}
  periodSeconds: 5
  timeoutSeconds: 5
{{- end }}

{{- define "idworker.budget" -}}
apiVersion: policy/v1
kind: PodDisruptionBudget
metadata:
  name: {{ .root.Release.Name }}-{{ .component }}
  labels:
    {{- include "idworker.labels" . | nindent 4 }}
spec:
  maxUnavailable: 1
  # A pod that does not serve need not delay a node's drain.
  unhealthyPodEvictionPolicy: AlwaysAllow
  selector:
    matchLabels:
      {{- include "idworker.selector" . | nindent 6 }}
{{- end }}

{{- define "idworker.settings" -}}
IDWORKER_SERVER: {{ .Values.nats.url | quote }}
# Probes, metrics and the status page, without a login.
IDWORKER_HTTP: ":9090"
{{- range $name, $value := .Values.settings }}
{{ $name }}: {{ kindIs "string" $value | ternary $value (toJson $value) | quote }}
{{- end }}
{{- end }}
