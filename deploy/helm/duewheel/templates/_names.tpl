{{/* Names, labels, and what the pods of worker and server have in common. */}}

{{- define "duewheel.name" -}}
{{- default .Chart.Name .Values.nameOverride | trunc 50 | trimSuffix "-" -}}
{{- end -}}

{{- define "duewheel.fullname" -}}
{{- if .Values.fullnameOverride -}}
{{- .Values.fullnameOverride | trimSuffix "-" -}}
{{- else if contains (include "duewheel.name" .) .Release.Name -}}
{{- .Release.Name | trunc 50 | trimSuffix "-" -}}
{{- else -}}
{{- printf "%s-%s" .Release.Name (include "duewheel.name" .) | trunc 50 | trimSuffix "-" -}}
{{- end -}}
{{- end -}}

{{- define "duewheel.selector" -}}
app.kubernetes.io/name: {{ include "duewheel.name" . }}
app.kubernetes.io/instance: {{ .Release.Name }}
{{- end -}}

{{- define "duewheel.labels" -}}
{{ include "duewheel.selector" . }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
helm.sh/chart: {{ printf "%s-%s" .Chart.Name .Chart.Version }}
{{- end -}}

{{- define "duewheel.serviceAccount" -}}
{{- if .Values.serviceAccount.create -}}
{{- default (include "duewheel.fullname" .) .Values.serviceAccount.name -}}
{{- else -}}
{{- default "default" .Values.serviceAccount.name -}}
{{- end -}}
{{- end -}}

{{/* Of the pod: takes (dict "root" $ "part" "worker" "own" .Values.worker). */}}
{{- define "duewheel.pod" -}}
serviceAccountName: {{ include "duewheel.serviceAccount" .root }}
# It never speaks to the cluster's own API.
automountServiceAccountToken: false
# Variables for each service of the namespace say nothing to it.
enableServiceLinks: false
{{- with .root.Values.imagePullSecrets }}
imagePullSecrets:
  {{- toYaml . | nindent 2 }}
{{- end }}
securityContext:
  runAsNonRoot: true
  runAsUser: 65532
  runAsGroup: 65532
  # Secret files become readable by it.
  fsGroup: 65532
  seccompProfile:
    type: RuntimeDefault
topologySpreadConstraints:
  - maxSkew: 1
    topologyKey: kubernetes.io/hostname
    whenUnsatisfiable: ScheduleAnyway
    labelSelector:
      matchLabels:
        {{- include "duewheel.selector" .root | nindent 8 }}
        app.kubernetes.io/component: {{ .part }}
{{- with .own.nodeSelector }}
nodeSelector:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- with .own.tolerations }}
tolerations:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- with .own.affinity }}
affinity:
  {{- toYaml . | nindent 2 }}
{{- end }}
volumes:
  - name: config
    configMap:
      name: {{ include "duewheel.fullname" .root }}
{{- if .root.Values.secrets }}
  - name: secrets
    projected:
      defaultMode: 0400
      sources:
        {{- range .root.Values.secrets }}
        - secret:
            name: {{ .secretName }}
            items:
              - {key: {{ .key | quote }}, path: {{ .key | quote }}}
        {{- end }}
{{- end }}
{{- end -}}

{{/* Of the container: takes the root. */}}
{{- define "duewheel.container" -}}
image: "{{ .Values.image.repository }}:{{ .Values.image.tag | default .Chart.AppVersion }}"
imagePullPolicy: {{ .Values.image.pullPolicy }}
securityContext:
  allowPrivilegeEscalation: false
  readOnlyRootFilesystem: true
  capabilities:
    drop: [ALL]
volumeMounts:
  - name: config
    mountPath: /etc/duewheel
    readOnly: true
{{- if .Values.secrets }}
  - name: secrets
    mountPath: /run/secrets/duewheel
    readOnly: true
{{- end }}
# Live: its loops turn. Ready: a claim or a look at Redis was answered lately, and it does not drain. Redis being away is no reason to be
# killed, so only the second one knows of it.
startupProbe:
  httpGet: {path: /livez, port: metrics}
  periodSeconds: 1
  failureThreshold: 60
livenessProbe:
  httpGet: {path: /livez, port: metrics}
  periodSeconds: 10
  timeoutSeconds: 5
  failureThreshold: 6
readinessProbe:
  httpGet: {path: /readyz, port: metrics}
  periodSeconds: 2
  timeoutSeconds: 2
  failureThreshold: 2
{{- end -}}

{{- define "duewheel.environment" -}}
- name: DUEWHEEL_LOG__FORMAT
  value: json
{{- range .Values.secrets }}
{{- if .env }}
- name: {{ .env }}
  value: {{ printf "/run/secrets/duewheel/%s" .key | quote }}
{{- end }}
{{- end }}
{{- with .Values.env }}
{{ toYaml . }}
{{- end }}
{{- end -}}
