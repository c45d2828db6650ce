{{- /* When a slot begins, as a CronJob has it: every width minutes, or, if an hour or a day is no whole number of
       them, at every minute at which one can begin. A run that finds its slot done does nothing. */ -}}
{{- define "prescient.schedule" -}}
{{- $width := int .Values.width -}}
{{- if lt $width 1 -}}
{{- fail "width: a CronJob starts at whole minutes; with smaller slots, set daemon: true" -}}
{{- end -}}
{{- $step := 1 -}}
{{- range $minutes := list 2 3 4 5 6 10 12 15 20 30 60 -}}
{{- if eq 0 (int (mod $width $minutes)) -}}{{- $step = $minutes -}}{{- end -}}
{{- end -}}
{{- if eq $width 1440 -}} 0 0 * * *
{{- else if and (eq $step 60) (gt $width 60) -}} 0 */{{ div $width 60 }} * * *
{{- else if eq $step 60 -}} 0 * * * *
{{- else if eq $step 1 -}} * * * * *
{{- else -}} */{{ $step }} * * * *
{{- end -}}
{{- end -}}

{{- /* The name of every object. It differs from the application's name, which has its own objects and pods. */ -}}
{{- define "prescient.name" -}}
{{- if contains "prescient" .Release.Name -}}
{{- .Release.Name -}}
{{- else -}}
{{- .Release.Name }}-prescient
{{- end -}}
{{- end -}}

{{- /* Pods also have a component: a selector without one would select every pod with the name. */ -}}
{{- define "prescient.labels" -}}
app.kubernetes.io/name: {{ include "prescient.name" . }}
{{- end -}}

{{- /* The common part of all pods. */ -}}
{{- define "prescient.pod" -}}
serviceAccountName: {{ include "prescient.name" . }}
{{ include "prescient.bare" . }}
{{- end -}}

{{- define "prescient.bare" -}}
automountServiceAccountToken: false
enableServiceLinks: false # a Service named prescient would set PRESCIENT_ variables
terminationGracePeriodSeconds: {{ .Values.stop }} # longer than run.grace (default: 20s) and the 10s that recording may take
securityContext:
  runAsNonRoot: true
  runAsUser: 65532
  runAsGroup: 65532
  seccompProfile: {type: RuntimeDefault}
{{- with .Values.pod }}
{{ toYaml . }}
{{- end }}
{{- if .Values.secret.config }}
volumes:
  - name: config
    secret:
      secretName: {{ .Values.secret.name }}
      items: [{key: {{ .Values.secret.config }}, path: {{ .Values.secret.config }}}]
{{- end }}
{{- end -}}

{{- /* The common part of their containers. Variables come last, so that more can follow. */ -}}
{{- define "prescient.container" -}}
image: {{ quote .Values.image }}
securityContext:
  allowPrivilegeEscalation: false
  readOnlyRootFilesystem: true
  privileged: false
  capabilities: {drop: [ALL]}
resources:
  {{- toYaml .Values.resources | nindent 2 }}
{{- if .Values.secret.config }}
volumeMounts:
  - {name: config, mountPath: /etc/prescient, readOnly: true}
{{- end }}
env:
  - {name: PRESCIENT_LOG_FORMAT, value: json}
{{- if .Values.secret.config }}
  - {name: PRESCIENT_CONFIG, value: /etc/prescient/{{ .Values.secret.config }}}
{{- else }}
  - name: PRESCIENT_DATABASE_URL
    valueFrom:
      secretKeyRef: {name: {{ .Values.secret.name }}, key: database-url}
{{- end }}
{{- end -}}
