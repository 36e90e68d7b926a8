"""Windows that are reported before they are complete.

``early``            what a push does for windows with triggers
``event_cuts``       what triggers of event time report: panes that end at cuts inside a window
``fired``            what triggers of pushes report
``in_place``         tumbling windows that are reported from the head of the store
``news``             which panes have news, and their cells
``apart``            cells that wait for a trigger
``cells_by_report``  all cells, grouped by which triggers have reported them
``numbered``         the revisions of what is reported
"""
